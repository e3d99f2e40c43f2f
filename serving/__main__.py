"""Serve maps by HTTP. The images that clients send are not stored."""

import dataclasses
import os
import signal
import sys
import threading

from serving.app import build_app, build_server
from serving.maps import Maps
from serving.model import ServedModel
from serving.settings import Contract, ServerConfig
from trainer.errors import UserError, reported
from trainer.machine import n_cpus
from trainer.settings import Parser, add_settings, settings_of
from trainer.tools import add_model

MOST_PARALLEL = 8
"""Maps that are computed at once unless a flag says otherwise: the networks of each need up to half a gigabyte."""


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM. Requests that have begun are answered first."""
    with reported():
        parser = _parser()
        parsed = parser.parse_args(arguments)
        contract = Contract.of(os.environ)
        config = settings_of(ServerConfig, parsed)
        if contract.port is not None:
            config = dataclasses.replace(config, port=contract.port)
        serve(parsed.model, config, contract)


def _parser() -> Parser:
    parser = Parser(prog="python -m serving", description=__doc__)
    add_model(parser)
    add_settings(parser, ServerConfig)
    return parser


def serve(name: str, config: ServerConfig, contract: Contract) -> None:
    """Serve the model of this name, or of the contract. It is loaded while the server already says so.

    Raises:
        UserError: the model cannot be loaded.
    """
    parallel = config.parallel or min(n_cpus(), MOST_PARALLEL)
    model, maps = ServedModel(name, parallel, contract.model), Maps(parallel, config)
    app = build_app(model, maps, config, contract, say)
    server = build_server(app, config)
    stop, failed = threading.Event(), []

    def load() -> None:
        try:
            model.load()
        except (UserError, OSError) as error:
            failed.append(error)
            server.should_exit = True
            return
        assert model.loaded
        say(f"{model.loaded.description} answers, {model.loaded.predictor.runtime}")
        model.follow(stop, say)

    threading.Thread(target=load, daemon=True).start()
    signal.signal(signal.SIGTERM, _end)
    try:
        server.run()
    finally:
        stop.set()
        maps.close()
    if failed:
        raise failed[0]


def _end(*_: object) -> None:
    """Exit with 0. After SIGTERM, uvicorn answers what has begun, and then gives the signal to this handler."""
    raise SystemExit


if __name__ == "__main__":
    main(sys.argv[1:])
