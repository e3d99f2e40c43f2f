"""Serve the page, until Ctrl-C."""

import socket
import webbrowser

import uvicorn
from starlette.applications import Starlette

from trainer.demo.app import build_app
from trainer.demo.listen import is_loopback, names
from trainer.prediction.predictor import Predictor

GRACE_S = 5
"""How long a prediction that runs is waited for after Ctrl-C."""


def build_server(app: Starlette) -> uvicorn.Server:
    """A server that logs no request and says little of itself."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)


def serve(predictor: Predictor, model: str, bound: socket.socket, host: str, open_browser: bool = False) -> None:
    """Answer requests on `bound` until Ctrl-C or SIGTERM; the address is printed when the page can be used."""
    server = build_server(build_app(predictor, model, names(host)))
    if not is_loopback(host):
        print(
            f"warning: everybody who reaches {host} can use the page, without a password or encryption; "
            "leave --host out to keep it to yourself",
            flush=True,
        )
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"
    print(f"{model} is at {address} (Ctrl-C stops it)", flush=True)
    if open_browser:
        webbrowser.open(address)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn has stopped in good order, and passes on what stopped it
        print("stopped")
