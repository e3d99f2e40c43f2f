"""Serves the page until Ctrl-C, on an address that is taken before the model is loaded."""

import ipaddress
import socket
import webbrowser
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette

from trainer.demo.app import build_app
from trainer.errors import UserError

if TYPE_CHECKING:
    from trainer.models.find import Answering
    from trainer.prediction.predictor import Predictor

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
GRACE_S = 5
"""Seconds to wait for a running prediction after Ctrl-C."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(host: str) -> list[str]:
    """Return the values of the header Host that a server on `host` accepts; `*` stands for any."""
    return [*LOOPBACK_NAMES, host] if is_loopback(host) else ["*"]


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 chooses a free port.

    Raises:
        UserError: the address or the port cannot be used.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen on {host}, port {port} ({reason}); give another --port or --host"
        ) from None
    return bound


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


def serve(predictor: "Predictor", model: "Answering", bound: socket.socket, host: str, open_browser: bool) -> None:
    """Serve on the socket `bound` until Ctrl-C or SIGTERM; prints the address when the page is ready."""
    app = build_app(predictor, model.description, host_names(host), model.notice, model.hint)
    if not is_loopback(host):
        print(
            f"warning: everyone who can reach {host} can use the page; it has no password and no encryption. "
            "Without --host, only this machine can reach it",
            flush=True,
        )
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"
    if model.notice:
        print(f"note: {model.notice}", flush=True)
    print(f"{model.name} is served at {address} (press Ctrl-C to stop)", flush=True)
    if open_browser:
        webbrowser.open(address)
    try:
        build_server(app).run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn raises it again after it has shut down
        print("stopped")
