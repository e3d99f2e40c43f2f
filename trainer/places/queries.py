"""The queries of signed web addresses, which are keys, and texts without them."""

import contextlib
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

from trainer.places.places import DRIVE_HOSTS

HIDDEN = "***"
"""What stands in a text in place of a query, or of a value in it."""
SHORTEST_VALUE = 8
"""Characters from which a value of a query is hidden wherever it stands. A shorter one is hidden in its query."""
WITHOUT_KEYS = ("gs", "vertex")
"""Schemes of addresses in which a question mark is a part of a name, or comes before a container for servers."""


def escaped_by_shells(text: str) -> str:
    """The text as `shlex.quote` writes it, without the quotes around it. Example: `it'"'"'s` for `it's`."""
    return text.replace("'", "'\"'\"'")


def escaped_by_python(text: str) -> str:
    """The text as `repr` writes it within single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def escaped_by_go(text: str) -> str:
    """The text in JSON as Go writes it, and Google's services do, such as `&` by its number in Unicode."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", plain)


ESCAPES: tuple[Callable[[str], str], ...] = (
    escaped_by_shells,
    escaped_by_python,
    escaped_by_go,
    lambda text: ascii(text)[1:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    html.escape,
    lambda text: html.escape(text, quote=False),
)
"""How a text is written within another one. JSON often stands in JSON, so two may follow each other."""


class Queries:
    """The queries of the addresses in some values, such as the parameters of a run.

    It is false if there are none.
    """

    def __init__(self, values: Iterable[object]) -> None:
        addresses = [part for value in values if isinstance(value, str) for part in (value, *value.split())]
        secrets = {form for each in addresses for text in _secrets(each) for form in _escaped(text)}
        # The longest first: a query before a value in it.
        self._texts = sorted(secrets, key=lambda text: (-len(text), text))

    def __bool__(self) -> bool:
        return bool(self._texts)

    def hide(self, text: str) -> str:
        """The text with HIDDEN in place of each query and of each value in one, in whatever form it is written."""
        for each in self._texts:
            text = text.replace(each, HIDDEN)
        return text


def _secrets(address: str) -> Iterator[str]:
    """What to hide of an address: its query, plain and percent-encoded in several ways, and the values in it.

    A query is what follows the first question mark, whatever stands before it: a mistyped address has a key, too.
    """
    if "?" not in address or address.partition("://")[0] in WITHOUT_KEYS:
        return
    host = re.split("[/?#]", address.lower().partition("://")[2], maxsplit=1)[0]
    for form in (address, *_sent(address)):
        for query in re.split("[?#]", form)[1:]:
            values = [] if host in DRIVE_HOSTS else re.split(r"[&;\s]", query)
            for text in (query, *(each.partition("=")[2] or each for each in values)):
                yield from (each for each in _encodings(text) if len(each) >= SHORTEST_VALUE)
            if 0 < len(query) < SHORTEST_VALUE:
                yield from _encodings(f"?{query}")


def _sent(address: str) -> Iterator[str]:
    """The address as the libraries send it and log it."""
    import requests  # type: ignore[import-untyped]
    import urllib3

    with contextlib.suppress(ValueError):  # it is none that they send
        yield requests.Request("GET", address).prepare().url
    with contextlib.suppress(ValueError):
        yield urllib3.util.parse_url(address).url


def _encodings(text: str) -> set[str]:
    plain = {text, urllib.parse.unquote(text), urllib.parse.unquote_plus(text)}
    quotes = (urllib.parse.quote, urllib.parse.quote_plus)
    return plain | {quote(each, safe=safe) for each in plain for quote in quotes for safe in ("", "/", "=&/")}


def _escaped(text: str) -> set[str]:
    once = {text, *(escape(text) for escape in ESCAPES)}
    return once | {escape(each) for each in once for escape in ESCAPES}
