"""Print a line of JSON for each photograph: the input of a batch prediction.

python to_lines.py PHOTO...

The name of a file is the key of its map, so no two may have the same.
"""

import base64
import collections
import json
import pathlib
import sys

paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
names = collections.Counter(path.name for path in paths)
if twice := [name for name, count in names.items() if count > 1]:
    sys.exit(f"error: several photographs are called {', '.join(twice)}; rename them, or one map replaces another")
for path in paths:
    print(json.dumps({"key": path.name, "image_bytes": {"b64": base64.b64encode(path.read_bytes()).decode()}}))
