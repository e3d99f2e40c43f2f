"""Serve a local web page to try a model with your own images.

The page is served on 127.0.0.1 unless you give --host. Images are not stored and are sent nowhere else.
"""

import argparse
import importlib.util

from trainer.cli import Parser, add_model, add_settings, settings
from trainer.config import PageConfig
from trainer.errors import check
from trainer.runtime import load_tensorflow

HELP = "try a model on a local web page"
PACKAGES = ("starlette", "uvicorn")
"""Packages of the extra `demo`, which the training images do not install."""


def configure(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default: %(default)s).")
    parser.add_argument(
        "--port", type=int, default=8000, help="Port to listen on; 0 chooses a free one (default: %(default)s)."
    )
    parser.add_argument("--open", action="store_true", help="Open the page in your browser.")
    add_settings(parser, PageConfig, ("sandbox",))


def execute(parsed: argparse.Namespace) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    check(
        not missing,
        f"the demo needs {' and '.join(missing)}: run `make demo`, or `pip install '.[demo]'` "
        "in the repository's folder",
    )
    from studio.demo.app import listen, serve
    from trainer.models.find import find_answering

    with listen(parsed.host, parsed.port) as bound:
        model = find_answering(parsed.model)
        load_tensorflow()
        import numpy as np

        from trainer.prediction.predictor import Predictor

        print("loading the model", flush=True)
        predictor = Predictor(model.folder)
        predictor.predict(np.zeros((16, 16, 3), np.uint8))  # traced now, so that the first image is not slow
        serve(predictor, model, bound, parsed.host, parsed.open, settings(PageConfig, parsed))
