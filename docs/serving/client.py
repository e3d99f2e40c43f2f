"""Write the saliency map of an image, shrunk to 1280 pixels, by the server's REST API.

python client.py http://localhost:8080/v1/models/msinet:predict IMAGE MAP
"""

import base64
import io
import json
import pathlib
import sys
import urllib.request

from PIL import Image, ImageOps

address, source, written = sys.argv[1:]
image = ImageOps.exif_transpose(Image.open(source)).convert("RGB")
image.thumbnail((1280, 1280))
image.save(content := io.BytesIO(), "JPEG", quality=90)
body = {"instances": [{"b64": base64.b64encode(content.getvalue()).decode()}]}
with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=60) as answer:  # noqa: S310 - the caller's own
    (prediction,) = json.load(answer)["predictions"]
if "error" in prediction:
    sys.exit(f"error: {prediction['error']}")
print(prediction["seen_as"])
pathlib.Path(written).write_bytes(base64.b64decode(prediction["b64"]))
