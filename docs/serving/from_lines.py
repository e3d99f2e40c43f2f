"""Write the maps in a batch prediction's results as PNGs.

python from_lines.py FOLDER RESULTS...
"""

import base64
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for results in map(pathlib.Path, sys.argv[2:]):
    for line in results.read_text().splitlines():
        result = json.loads(line)
        content = base64.b64decode(result["prediction"]["b64"])
        if content:
            (folder / f"{result['key']}.png").write_bytes(content)
        else:
            print(f"{result['key']}: {result['prediction']['error']}", file=sys.stderr)
