"""Serves the page until Ctrl-C, on an address that is taken before the model is loaded.

Loads no TensorFlow until `serve` is called.
"""

import errno
import ipaddress
import socket
import webbrowser
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette

from trainer.errors import UserError, check

if TYPE_CHECKING:
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
    check(0 <= port <= 65_535, f"{port} is not a port; --port takes 0 (any free port) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        # Before the model is loaded, so that no other program takes the port meanwhile.
        bound.listen()
    except OSError as error:
        bound.close()
        reasons = {
            errno.EADDRINUSE: f"port {port} is in use; give another --port, or 0 for any free one",
            errno.EACCES: f"no permission to listen on port {port}; give a --port above 1023",
        }
        other = f"cannot listen on {host} ({error.strerror}); --host must be an address of this machine"
        raise UserError(reasons.get(error.errno or 0, other)) from None
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


def serve(
    predictor: "Predictor",
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
    from trainer.demo.app import build_app

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
