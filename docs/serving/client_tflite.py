"""Write the saliency map of a photograph by a TFLite file of MSI-Net.

python client_tflite.py MODEL PHOTO MAP
"""

import sys

import numpy as np
from PIL import Image, ImageOps

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:  # TensorFlow has one as well
    from tensorflow.lite.python.interpreter import Interpreter

model, photo, written = sys.argv[1:]
interpreter = Interpreter(model)
network = interpreter.get_signature_runner("serving_default")
height, width = network.get_input_details()["input"]["shape"][1:3]

image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB")
shrinks = image.width > width or image.height > height
fitted = ImageOps.contain(image, (width, height), Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC)
top, left = (height - fitted.height) // 2, (width - fitted.width) // 2
inside = (slice(top, top + fitted.height), slice(left, left + fitted.width))
padded = np.full((1, height, width, 3), 126, np.float32)
padded[0][inside] = np.asarray(fitted)

saliency = network(input=padded)["output"][0, ..., 0][inside]
levels = np.rint(255 * np.clip(saliency, 0, 1)).astype(np.uint8)
Image.fromarray(levels).resize(image.size, Image.Resampling.BICUBIC).save(written)
