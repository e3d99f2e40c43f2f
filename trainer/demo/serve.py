"""Serves the page until Ctrl-C."""

import socket
import webbrowser

import uvicorn
from starlette.applications import Starlette

from trainer.demo.app import build_app
from trainer.demo.listen import host_names, is_loopback
from trainer.prediction.predictor import Predictor

GRACE_S = 5
"""Seconds to wait for a running prediction after Ctrl-C."""


def build_server(app: Starlette) -> uvicorn.Server:
    """Build a server that logs no requests and does not name itself in headers."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)


def serve(
    predictor: Predictor,
    model: str,
    bound: socket.socket,
    host: str,
    open_browser: bool = False,
    notice: str = "",
    hint: str = "",
    description: str = "",
) -> None:
    """Serve on the socket `bound` until Ctrl-C or SIGTERM; prints the address when the page is ready.

    `notice`, if any, is what the model must say about itself, on the page and here; `hint` how far its maps can be
    trusted, on the page. `description` is what the page calls the model, if that is more than its name.
    """
    server = build_server(build_app(predictor, description or model, host_names(host), notice, hint))
    if not is_loopback(host):
        print(
            f"warning: everyone who can reach {host} can use the page; it has no password and no encryption. "
            "Without --host, only this machine can reach it",
            flush=True,
        )
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"
    if notice:
        print(f"note: {notice}", flush=True)
    print(f"{model} is served at {address} (press Ctrl-C to stop)", flush=True)
    if open_browser:
        webbrowser.open(address)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn raises it again after it has shut down
        print("stopped")
