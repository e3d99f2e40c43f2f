"""The rule that says which addresses a page may load while `check` takes its picture."""

import functools
import pathlib
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit
from urllib.request import url2pathname

from trainer.downloads.addresses import RefusedError, Rule, check_characters

WEB = ("http", "https")
INLINE = ("about", "blob", "data")
"""Schemes of addresses whose content comes from the page itself."""


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
        rule = Rule(http=(address,))
        rule.check(address)
        for peer in resolve(asked.hostname or ""):
            rule.check_peer(address, peer)
    except (RefusedError, ValueError):
        return False
    return True


def _is_beside(page: str, file: str) -> bool:
    """Return whether the path of a file:// address is the page's own, or leads below the page's folder."""
    try:
        folder = pathlib.Path(url2pathname(page)).parent.resolve()
        return file == page or pathlib.Path(url2pathname(file)).resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a loop of links
        return False
