"""Write the saliency map of an image by the server's REST API. Shrink it first if Vertex AI would not take it.

python client.py http://localhost:8080/v1/models/msinet:predict IMAGE MAP
"""

import base64
import io
import json
import pathlib
import sys
import urllib.request

from PIL import Image, ImageOps

MOST_BYTES = 1_100_000  # 1.5 MB in base64
address, source, written = sys.argv[1:]
content = pathlib.Path(source).read_bytes()
if len(content) > MOST_BYTES:
    image = ImageOps.exif_transpose(Image.open(source)).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    image.thumbnail((1280, 1280))
    image.save(smaller := io.BytesIO(), "JPEG", quality=90)
    content = smaller.getvalue()
body = {"instances": [{"b64": base64.b64encode(content).decode()}]}
with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=60) as answer:  # noqa: S310 - the caller's own
    (prediction,) = json.load(answer)["predictions"]
if "error" in prediction:
    sys.exit(f"error: {prediction['error']}")
saliency = base64.b64decode(prediction["b64"])
pathlib.Path(written).write_bytes(saliency)
width, height = Image.open(io.BytesIO(saliency)).size
print(f"wrote {written}: {width} x {height} pixels, seen as {prediction['seen_as']}")
