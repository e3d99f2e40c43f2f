"""Listen for the page: on this machine alone unless told otherwise, until Ctrl-C."""

import errno
import ipaddress
import socket
import webbrowser

import uvicorn
from starlette.applications import Starlette

from trainer.demo.app import build_app
from trainer.errors import UserError
from trainer.prediction.predictor import Predictor

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
GRACE_S = 5
"""How long a prediction that runs is waited for after Ctrl-C."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names(host: str) -> list[str]:
    """What a browser may call a server by that listens on an address; `*` is any."""
    return [*LOOPBACK_NAMES, host] if is_loopback(host) else ["*"]


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 takes a free one. A `UserError` where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        # Now rather than when the model is there, so that nobody else takes the port in between.
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        raise _not_bound(host, port, error) from None
    return bound


def _not_bound(host: str, port: int, error: OSError | OverflowError) -> UserError:
    if isinstance(error, OverflowError):
        return UserError(f"{port} is no port; --port takes 0 (any free one) to 65535")
    if error.errno == errno.EADDRINUSE:
        return UserError(f"port {port} is in use; name another with --port, or take any free one with --port 0")
    if error.errno == errno.EACCES:
        return UserError(f"may not listen on port {port}; name one above 1023 with --port")
    return UserError(f"cannot listen on {host} ({error.strerror}); --host takes an address of this machine")


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
