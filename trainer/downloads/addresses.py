"""Which addresses may be fetched: https, and machines of the public internet, unless a setting allows others."""

import dataclasses
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Collection

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from trainer.errors import UserError
from trainer.text import shown

SETTING = "private_sources"
"""The setting of `FetchConfig` that allows private addresses."""
LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
"""Last parts of names that only a machine's own network knows, such as metadata.google.internal."""
OF_PLATFORMS = (ipaddress.ip_network("168.63.129.16/32"), ipaddress.ip_network("192.0.0.0/24"))
"""Addresses that count as global, and have the metadata servers of Azure and Oracle Cloud."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")
PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(UserError):
    """An address that may not be fetched."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """Which addresses may be fetched."""

    private: bool = False
    """Also http, and machines of private networks."""
    http: Collection[str] = ()
    """Addresses that may be fetched by http."""

    def check(self, url: str, redirected_from: str = "") -> None:
        """Raise `RefusedError` unless `url` may be fetched, or led to by the address `redirected_from`.

        Only its text is looked at; `check_peer` looks at the machine that a name leads to.
        """
        where = f"{place_of(redirected_from)} leads to {place_of(url)}" if redirected_from else place_of(url)
        check_characters(url, where)
        try:
            parts = parse_url(url)
        except LocationParseError:
            raise RefusedError(f"{where}: this is no address; write https://HOST/PATH") from None
        if parts.scheme not in ("https", "http") or not parts.host:
            raise RefusedError(f"{where}: only https:// is fetched; download the file, and pass its path")
        if parts.auth:
            raise RefusedError(
                f"the address of {host_of(url)} has a password, which is not sent; download it yourself"
            )
        if not self.private:
            self._check_public(url, parts.scheme, parts.host, where, redirected_from)

    def _check_public(self, url: str, scheme: str, host: str, where: str, redirected_from: str) -> None:
        if scheme == "http" and url not in self.http and not redirected_from.startswith("http://"):
            raise RefusedError(f"{where}: http is fetched only with {SETTING}=true; use an https:// address")
        name = host.strip("[]").rstrip(".").lower()
        address = literal(name)
        is_local = "." not in name or name.endswith(tuple(f".{last}" for last in LOCAL_NAMES))
        if not is_public(address) if address else is_local:
            raise RefusedError(f"{where}: {_private(host)}")

    def check_peer(self, host: str, peer: str) -> None:
        """Raise `RefusedError` unless the machine at the IP address `peer`, which `host` led to, may be asked."""
        address = literal(peer)
        if not self.private and not (address and is_public(address)):
            raise RefusedError(f"{shown(host)} leads to {peer}: {_private(peer)}")


def check_characters(url: str, where: str) -> None:
    """Raise `RefusedError` for characters that programs read differently, such as a backslash before the host."""
    if any(character.isspace() or not character.isprintable() or character == "\\" for character in url):
        raise RefusedError(f"{where}: the address has characters that none may have; check it")


def _private(host: str) -> str:
    return f"{shown(host)} is an address of a private network, which is fetched only with {SETTING}=true"


def literal(host: str) -> Address | None:
    """The IP address that `host` spells, also in the decimal, octal and short forms of C; None for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def is_public(address: Address) -> bool:
    """Whether an address is one machine of the public internet, with those that are embedded in it."""
    if isinstance(address, ipaddress.IPv4Address):
        is_special = address.is_multicast or address.is_reserved or any(address in net for net in OF_PLATFORMS)
        return address.is_global and not is_special
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    inner = [is_public(each) for each in embedded if each is not None]
    return all(inner) if inner else address in PUBLIC_IPV6 and address.is_global


def place_of(url: str) -> str:
    """An address for messages and records, without its query, which may be a key."""
    return shown(re.split(r"[?#]", url, maxsplit=1)[0])


def without_queries(text: str) -> str:
    """Any text with its addresses of the web cut before their queries, which may be keys."""
    return re.sub(r"(https?://[^\s?\"'<>]+)\?[^\s\"<>]*", r"\1", text)


def host_of(url: str) -> str:
    """The host in an address, for messages."""
    return shown(urllib.parse.urlsplit(url).hostname or url)
