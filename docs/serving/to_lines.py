"""Print a line of JSON for each photograph: the input of a batch prediction.

python to_lines.py PHOTO...
"""

import base64
import json
import pathlib
import sys

for path in map(pathlib.Path, sys.argv[1:]):
    print(json.dumps({"key": path.name, "image_bytes": {"b64": base64.b64encode(path.read_bytes()).decode()}}))
