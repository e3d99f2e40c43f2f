"""The rule that says which addresses a page may load while `check` takes its picture."""

import functools
import ipaddress
import pathlib
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit
from urllib.request import url2pathname

from trainer.downloads.addresses import check_characters
from trainer.errors import UserError

WEB = ("http", "https")
INLINE = ("about", "blob", "data")
"""Schemes of addresses whose content comes from the page itself."""
LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
"""Last parts of names that only a machine's own network knows, such as metadata.google.internal."""
METADATA = ("168.63.129.16", "192.0.0.192")
"""Addresses that count as global, and are the metadata servers of Azure and Oracle Cloud."""


@functools.cache
def peers_of(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name; none if it does not resolve here, as behind a proxy."""
    try:
        return tuple({str(found[4][0]) for found in socket.getaddrinfo(host, None)})
    except (OSError, UnicodeError):
        return ()


def may_load(page: str, address: str, resolve: Callable[[str], Iterable[str]] = peers_of) -> bool:
    """Return whether a page may load an address: itself, its own folder or host, and public addresses.

    Args:
        page: the address of the page, file:// or http(s)://.
        address: what the page, a frame of it or one of its scripts asks for, or is redirected to.
        resolve: returns the IP addresses that a host's name leads to.
    """
    try:
        own, asked = urlsplit(page), urlsplit(address)
        if asked.scheme in INLINE:
            return True
        check_characters(address, address)
        if asked.scheme not in WEB:
            return own.scheme == asked.scheme == "file" and not asked.netloc and _is_beside(own.path, asked.path)
        if own.scheme in WEB and own.hostname == asked.hostname:
            return True
        host = asked.hostname or ""
        return _is_public(host) and all(map(_is_public, resolve(host)))
    except (UserError, ValueError):
        return False


def _is_public(host: str) -> bool:
    """Whether a name, or an IP address in any spelling, can be that of a machine of the public internet."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(name)))  # also 127.1 and 0x7f000001
    except (OSError, UnicodeError):
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return "." in name and not name.endswith(tuple(f".{last}" for last in LOCAL_NAMES))
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        return address.is_global and (inner is None or _is_public(str(inner)))
    return address.is_global and not address.is_multicast and str(address) not in METADATA


def _is_beside(page: str, file: str) -> bool:
    """Return whether the path of a file:// address is the page's own, or leads below the page's folder."""
    try:
        folder = pathlib.Path(url2pathname(page)).parent.resolve()
        return file == page or pathlib.Path(url2pathname(file)).resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a loop of links
        return False
