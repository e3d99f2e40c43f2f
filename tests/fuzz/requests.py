"""HTTP requests to the page's server: pictures, and heads and bodies that no browser sends."""

import dataclasses
import random

from tests.fuzz.mutate import mutated
from tests.fuzz.names import name

PLACES = ("/map", "/map.png", "/overlay.png", "/overlay.png?opacity=0.5&view=focus")


@dataclasses.dataclass(frozen=True)
class Request:
    kind: str
    content: bytes
    """All bytes that are sent; then the sending side is closed."""
    path: str = ""
    """Of a picture's request that nothing is wrong with; else empty."""


def posted(picture: bytes, source: random.Random, host: str) -> Request:
    """A picture as the page sends it."""
    path = source.choice(PLACES)
    return Request(f"post {path.partition('?')[0]}", message("POST", path, host, picture), path)


def message(method: str, path: str, host: str, body: bytes = b"", *lines: str) -> bytes:
    given = {line.partition(":")[0].lower() for line in lines}
    head = [f"{method} {path} HTTP/1.1", *lines]
    ours = {"Host": host, "Content-Type": "image/png", "Content-Length": str(len(body)), "Connection": "close"}
    head += [f"{key}: {value}" for key, value in ours.items() if key.lower() not in given]
    return "\r\n".join([*head, "", ""]).encode("latin-1", errors="replace") + body


def odd(picture: bytes, source: random.Random, host: str) -> Request:
    """A request with a head or a framing of the body that is wrong, or damaged as a whole."""
    kind = source.choice(
        ("method", "path", "header", "length", "chunks", "damaged", "damaged", "query", "garbage")
    )
    text = name(source).replace("\n", "%0A")[:4000]
    if kind == "method":
        verb = source.choice(
            ("GET", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "HEAD", "post", "", "A" * 9000)
        )
        content = message(verb, source.choice(PLACES), host, picture)
    elif kind == "path":
        beginnings = ("/", "/map/", "/pattern/", "/%2e%2e/", "//", "/../", "http://x/", "*", "")
        ends = (
            text,
            f"{text}.png",
            "1.png",
            "-1.png",
            f"{'9' * 5000}.png",
            "%00",
            "%ff%fe",
            "..%2f..%2fetc/passwd",
        )
        content = message(source.choice(("GET", "POST")), source.choice(beginnings) + source.choice(ends), host)
    elif kind == "header":
        lines = (
            "Host: evil.example", f"Host: {text}", "Host:", "Origin: https://evil.example", f"Origin: {text}",
            "Sec-Fetch-Site: cross-site", "Content-Type: text/html", f"Content-Type: {text}", "Content-Type:",
            f"X: {'a' * 70_000}", f"{text}: x", "Content-Encoding: gzip", "Expect: 100-continue",
            "Range: bytes=0-",
            "Transfer-Encoding: identity", "Upgrade: websocket\r\nConnection: Upgrade",
        )  # fmt: skip
        content = message("POST", "/map", host, picture, source.choice(lines))
    elif kind == "length":
        lengths = (
            "-1",
            "0",
            "1",
            str(len(picture) + 9),
            "9" * 400,
            "0x10",
            " ",
            "1, 1",
            "\u00b2",
            str(10**9),
            "+5",
        )
        content = message("POST", "/map", host, picture, f"Content-Length: {source.choice(lengths)}")
        if source.random() < 0.3:
            content = content.replace(b"\r\n\r\n", f"\r\nContent-Length: {len(picture)}\r\n\r\n".encode(), 1)
    elif kind == "chunks":
        sizes = (b"%x" % len(picture), b"-1", b"zz", b"", b"f" * 40, b"%x;x=y" % len(picture), b"1")
        body = (
            source.choice(sizes)
            + b"\r\n"
            + picture
            + b"\r\n"
            + source.choice((b"0\r\n\r\n", b"", b"0\r\nX: y\r\n\r\n"))
        )
        fields = ["Transfer-Encoding: chunked", *source.sample(["Content-Length: 5", "Transfer-Encoding: x"], 1)]
        content = message("POST", "/map", host, body, *fields[: source.randint(1, 2)])
        content = content.replace(f"Content-Length: {len(body)}\r\n".encode(), b"", 1)
    elif kind == "query":
        values = ("nan", "inf", "-1", "2", "", "1e999", text, "0.5&opacity=2", "%ff", "0x1p0", "\u0663")
        content = message("POST", f"/overlay.png?opacity={source.choice(values)}", host, picture)
    elif kind == "garbage":
        content = source.choice(
            (b"", b"\0" * 100, source.randbytes(500), b"\x16\x03\x01\x02\0", b"GET\r\n\r\n", b"\r\n" * 999)
        )
    else:
        content = mutated(message("POST", "/map", host, picture), source)
    return Request(f"odd {kind}", content)
