"""Write the demo page as static files: browsers run the model themselves, and no server sees an image.

Any web server can serve the folder, such as GitHub Pages, or here `python -m http.server --directory site`. The
runtime for browsers, onnxruntime-web, is fetched with npm.
"""

import argparse
import sys

from trainer.api import find
from trainer.tools import Parser, add_model, local_path, results_dir

HELP = "write the demo page as static files that need no server"


def configure(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument("--output-dir", type=results_dir, required=True, metavar="DIR", help="Folder of the site.")


def execute(parsed: argparse.Namespace) -> None:
    from studio.site.build import build_site, fetch_runtime

    model, folder = find(parsed.model), local_path(parsed.output_dir)
    model.tell()
    print("fetching the runtime for browsers ...", file=sys.stderr, flush=True)
    runtime = fetch_runtime()
    print("writing the site ...", file=sys.stderr, flush=True)
    build_site(model, runtime, folder)
    size_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"wrote {folder}, {size_bytes / 1e6:.1f} MB. To see it: python -m http.server --directory {folder}")
