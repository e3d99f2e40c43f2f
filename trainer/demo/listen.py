"""Where the page listens, and by which names it may be called. Standard library only."""

import errno
import ipaddress
import socket

from trainer.errors import UserError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


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
