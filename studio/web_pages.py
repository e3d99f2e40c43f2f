"""Opens web addresses and HTML files in a browser: the picture of a page, or the picture that an address is.

The browser is run by `studio.browser`, which needs playwright.
"""

import functools
import importlib.util
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from studio.browser_settings import PageConfig
from trainer.api import NotFoundError, SettingError
from trainer.tools import FORMATS, Input, PredictConfig, check, local_path, printable, shown, some

if TYPE_CHECKING:
    from studio.browser import Shown

SCHEMES = ("http://", "https://")
SUFFIXES = (".html", ".htm", ".xhtml")


def is_address(name: str) -> bool:
    """Return whether a name is an address of the web."""
    return name.lower().startswith(SCHEMES)


def is_page(name: str) -> bool:
    """Return whether a design is an address, or a file of HTML, such as `landing.html` or `landing.html#buy`."""
    lower = name.lower()
    return is_address(name) or lower.endswith(SUFFIXES) or lower.partition("#")[0].endswith(SUFFIXES)


def label_of(name: str) -> str:
    """Return the name of a page for messages: without a password, on one line.

    Example:
        >>> label_of("https://me:secret@example.com/a")
        'https://example.com/a'
    """
    scheme, separator, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")


def file_name(address: str) -> str:
    """Return a file name for the picture at an address: the picture's own, or host and path of a page with .png.

    Example:
        >>> file_name("https://example.com/shop/shoes")
        'example.com-shop-shoes.png'

    Raises:
        UserError: it is no address that a browser could open.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        host = None
    check(bool(host), f"{label_of(address)} is no address: give one such as https://example.com", SettingError)
    path = unquote(parts.path).strip("/").replace("\\", "/")
    last = path.rpartition("/")[2]
    name = (
        last
        if last.lower().endswith(FORMATS.suffixes)
        else f"{host}/{path}".rstrip("/").replace("/", "-") + ".png"
    )
    return "".join(letter if letter.isprintable() else "-" for letter in name)


def _address_of(name: str) -> str:
    """Return what the browser opens for an address or HTML file. Raises `UserError` if there is no such file."""
    if is_address(name):
        return name
    file, _, fragment = (name, "", "") if name.lower().endswith(SUFFIXES) else name.partition("#")
    path = local_path(file)
    check(path.is_file(), f"there is no file {printable(file)}: give an HTML file, or an address", NotFoundError)
    return path.absolute().as_uri() + (f"#{quote(fragment)}" if fragment else "")


def open_page(
    name: str, selectors: Sequence[str], config: PageConfig, max_pixels: int, with_offers: bool = False
) -> "Shown":
    """Open an address or HTML file in a browser that has never seen another page.

    Args:
        name: address or HTML file.
        selectors: CSS selectors of the elements to find on the page.
        config: size of the window, and limits.
        max_pixels: a larger picture of a page is refused.
        with_offers: whether the page's own elements are looked for, too.

    Raises:
        UserError: there is no browser, or the page does not load in time.
    """
    label, address = label_of(name), _address_of(name)
    check(
        importlib.util.find_spec("playwright") is not None,
        "pages are shown by playwright, which is not installed: run `make install`, or "
        f"`pip install '.[browser]'` in the repository's folder. Or give a picture of {label}",
        NotFoundError,
    )
    from studio.browser import photograph

    refused: list[str] = []
    try:
        return photograph(address, selectors, label, config, max_pixels, refused, with_offers)
    finally:
        if refused:  # which may change where attention falls
            addresses = [shown(label_of(re.split(r"[?#]", each, maxsplit=1)[0])) for each in refused]
            print(
                f"note: {label} did not get {some(list(dict.fromkeys(addresses)))}: a page may load what is below "
                "its own folder or on its own host, and public addresses",
                file=sys.stderr,
                flush=True,
            )


def find_page(name: str, config: PageConfig) -> Input:
    """Return a page as an image that is opened when it is read: its results are named by `file_name`.

    Args:
        name: address or HTML file.
        config: size of the window, and limits.

    Raises:
        UserError: it is no address that a browser could open, or there is no such file.
    """
    _address_of(name)
    key = file_name(name) if is_address(name) else pathlib.PurePath(name).name

    @functools.cache  # so that an overlay is drawn on the picture that was predicted
    def opened() -> "Shown":
        return open_page(name, (), config, PredictConfig().most_pixels)

    def read(max_bytes: int) -> bytes:
        picture = opened().content
        check(
            len(picture) <= max_bytes,
            f"{label_of(name)} has {len(picture):,} bytes. The largest allowed picture needs at most "
            f"{max_bytes:,}. Raise --most-megapixels",
            SettingError,
        )
        return picture

    beside = key if is_address(name) else str(local_path(name))
    return Input(name, key, read, beside)
