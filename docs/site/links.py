"""Finds links of built pages that lead nowhere: to a file that is missing, or to an anchor that its page lacks."""

import functools
import html.parser
import pathlib
import urllib.parse


class _Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


@functools.cache
def _read(path: pathlib.Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def broken(site: pathlib.Path) -> list[str]:
    """A line for each link of the pages below `site` that leads nowhere; other hosts are not asked."""
    found = []
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in _read(path).links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(site)}: {link}: there is no such file")
            elif not _has(target, urllib.parse.unquote(parts.fragment)):
                found.append(f"{path.relative_to(site)}: {link}: there is no such anchor")
    return found


def _has(target: pathlib.Path, anchor: str) -> bool:
    """Whether a file has an anchor; each has an empty one, and only pages are looked into."""
    return not anchor or target.suffix != ".html" or anchor in _read(target).anchors
