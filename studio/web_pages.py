"""Opens web addresses and HTML files in a browser: the picture of a page, or the picture that an address is.

The browser is run by `studio.browser`, which needs playwright of the extra `check`.
"""

import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from trainer.config import PageConfig
from trainer.errors import check, printable, some
from trainer.files import local_path
from trainer.picture import SUFFIXES as PICTURES

if TYPE_CHECKING:
    from studio.browser import Found

SCHEMES = ("http://", "https://")
SUFFIXES = (".html", ".htm", ".xhtml")


def is_address(name: str) -> bool:
    """Return whether a name is an address of the web."""
    return name.lower().startswith(SCHEMES)


def is_page(name: str) -> bool:
    """Return whether a design is an address, or a file of HTML with or without a #fragment."""
    lower = name.lower()
    return is_address(name) or lower.endswith(SUFFIXES) or lower.partition("#")[0].endswith(SUFFIXES)


def label_of(name: str) -> str:
    """Return the name of a page for messages: without a password, on one line."""
    scheme, separator, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")


def file_name(address: str) -> str:
    """Return a file name for the picture at an address: the picture's own, or host and path of a page with .png.

    Raises:
        UserError: it is no address that a browser could open.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        host = None
    check(bool(host), f"{label_of(address)} is no address; give one such as https://example.com")
    path = unquote(parts.path).strip("/").replace("\\", "/")
    last = path.rpartition("/")[2]
    name = last if last.lower().endswith(PICTURES) else f"{host}/{path}".rstrip("/").replace("/", "-") + ".png"
    return "".join(letter if letter.isprintable() else "-" for letter in name)


def open_page(
    name: str, selectors: Sequence[str], config: PageConfig, max_pixels: int
) -> tuple[bytes, list["Found"]]:
    """Open an address or HTML file in a browser that has never seen another page.

    Args:
        name: address or HTML file.
        selectors: CSS selectors of the elements to find on the page.
        config: size of the window, and limits.
        max_pixels: a larger picture of a page is refused.

    Returns:
        The picture of the page as a PNG, or the picture that the address is, and the elements of each selector.

    Raises:
        UserError: there is no browser, or the page does not load in time.
    """
    label, address = label_of(name), name
    if not is_address(name):
        file, _, fragment = (name, "", "") if name.lower().endswith(SUFFIXES) else name.partition("#")
        address = local_path(file).absolute().as_uri() + (f"#{quote(fragment)}" if fragment else "")
    check(
        importlib.util.find_spec("playwright") is not None,
        "pages are shown by playwright, which is not installed: run `make install`, or "
        f"`pip install '.[check]'` in the repository's folder; or give a picture of {label}",
    )
    from studio.browser import photograph

    refused: list[str] = []
    try:
        return photograph(address, selectors, label, config, max_pixels, refused)
    finally:
        if refused:  # which may change where attention falls
            print(
                f"note: {label} did not get {some(list(dict.fromkeys(refused)))}: a page may load what is below "
                "its own folder or on its own host, and public addresses",
                file=sys.stderr,
                flush=True,
            )
