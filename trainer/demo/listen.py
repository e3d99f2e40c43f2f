"""The address that the page listens on, and the host names that it accepts. Standard library only."""

import errno
import ipaddress
import socket

from trainer.errors import UserError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(host: str) -> list[str]:
    """Values of the header Host that a server accepts which listens on `host`; `*` for any."""
    return [*LOOPBACK_NAMES, host] if is_loopback(host) else ["*"]


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 chooses a free port.

    Raises:
        UserError: the address or the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        # Before the model is loaded, so that no other program takes the port meanwhile.
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        raise _not_bound(host, port, error) from None
    return bound


def _not_bound(host: str, port: int, error: OSError | OverflowError) -> UserError:
    if isinstance(error, OverflowError):
        return UserError(f"{port} is not a port; --port takes 0 (any free port) to 65535")
    if error.errno == errno.EADDRINUSE:
        return UserError(f"port {port} is in use; give another --port, or 0 for any free one")
    if error.errno == errno.EACCES:
        return UserError(f"no permission to listen on port {port}; give a --port above 1023")
    return UserError(f"cannot listen on {host} ({error.strerror}); --host must be an address of this machine")
