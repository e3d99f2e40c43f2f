"""Write the saliency map of a photograph, shrunk to 1280 pixels, by TensorFlow Serving's REST API.

python client.py http://localhost:8501/v1/models/msinet:predict PHOTO MAP
"""

import base64
import io
import json
import pathlib
import sys
import urllib.request

from PIL import Image, ImageOps

address, photo, written = sys.argv[1:]
image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB")
image.thumbnail((1280, 1280))
image.save(content := io.BytesIO(), "JPEG", quality=90)
body = {"signature_name": "serve_bytes", "instances": [{"b64": base64.b64encode(content.getvalue()).decode()}]}
with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=60) as answer:  # noqa: S310 - the caller's own
    (prediction,) = json.load(answer)["predictions"]
pathlib.Path(written).write_bytes(base64.b64decode(prediction["b64"]))
