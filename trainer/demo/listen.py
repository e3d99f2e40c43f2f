"""The address that the page listens on, and the host names that it accepts. Standard library only."""

import errno
import ipaddress
import socket

from trainer.errors import UserError, check

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


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
