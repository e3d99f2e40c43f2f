"""Predict the saliency map of an image with an ONNX export: python client_onnx.py MODEL.onnx IMAGE MAP.png"""

import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, path, output = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
height, width = map(int, session.get_modelmeta().custom_metadata_map["image_size"].split("x"))
image = ImageOps.exif_transpose(Image.open(path)).convert("RGBA")
image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
padded = ImageOps.pad(image, (width, height), Image.Resampling.BOX, color=(126, 126, 126))
saliency = session.run(["output"], {"input": np.float32(padded)[None]})[0][0, ..., 0]
written = ImageOps.fit(Image.fromarray(np.uint8(np.rint(255 * saliency))), image.size)
written.save(output)
y, x = np.unravel_index(np.argmax(written), (image.height, image.width))
print(f"wrote {output}: {image.width} x {image.height} pixels, peak at x {x}, y {y}")
