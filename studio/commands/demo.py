"""Serve a local web page to try a model with your own images.

The page is served on 127.0.0.1 unless you give --host. Images are not stored and are sent nowhere else.
"""

import argparse
import importlib.util
import sys

from studio.browser_settings import PageConfig
from trainer.api import NotFoundError, find
from trainer.tools import Parser, add_model, add_settings, check, settings_of

HELP = "try a model on a local web page"
PACKAGES = ("starlette", "uvicorn")
"""Packages of the extra `studio` that the server needs."""


def configure(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default: %(default)s).")
    parser.add_argument(
        "--port", type=int, default=8000, help="Port to listen on. 0 chooses a free one (default: %(default)s)."
    )
    opened = argparse.BooleanOptionalAction
    parser.add_argument("--open", action=opened, default=False, help="Open the page in your browser.")
    add_settings(parser, PageConfig, ("sandbox",))


def execute(parsed: argparse.Namespace) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    check(
        not missing,
        f"the demo needs {' and '.join(missing)}: run `make demo`, or `pip install '.[studio]'` "
        "in the repository's folder",
        NotFoundError,
    )
    from studio.demo.app import listen, serve_demo

    with listen(parsed.host, parsed.port) as bound:
        model = find(parsed.model)
        print(f"model: {model}", file=sys.stderr, flush=True)
        print("loading the model", flush=True)
        model.load()  # before the page opens, so that damaged weights are reported here
        serve_demo(model, bound, parsed.host, parsed.open, settings_of(PageConfig, parsed))
