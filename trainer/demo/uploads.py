"""Checks and reads posted images: their sender, their size, and the time that sending takes."""

import asyncio

from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES = 30_000_000
MAX_DROPPED = 4
"""Bodies up to so many times `MAX_BYTES` are read and dropped: clients that are cut off do not read the reason."""
MAX_READ_S = 30.0
"""Time limit for the bytes of one image; they take milliseconds on loopback and seconds over slow Wi-Fi."""
OWN_SITE = ("same-origin", "none")


CLOSE = {"Connection": "close"}
"""Header after which the connection is closed; without it, the rest of the request is read and dropped."""


class RefusedError(HTTPException):
    """A request that is refused: the HTTP status, what is wrong and what to do, and headers."""


def check_sender(request: Request) -> None:
    """Refuse cross-origin requests of browsers; this page and programs other than browsers may send images.

    A form of another site cannot send these content types, and its scripts need a preflight request for them.

    Raises:
        RefusedError: the request is cross-origin, or has another content type than an image's.
    """
    origin = request.headers.get("origin")
    # Without the scheme, which a tunnel may change.
    if origin is not None and origin.partition("://")[2] != URL(scope=request.scope).netloc:
        raise RefusedError(403, f"this server accepts images from its own page, not from {origin}")
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITE:
        raise RefusedError(403, "this server accepts images from its own page, not from another site")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith("image/") and kind != "application/octet-stream":
        raise RefusedError(
            415, f"send the bytes of an image as image/* or application/octet-stream, not as {kind or 'nothing'}"
        )


async def read(request: Request) -> bytes:
    """Read the body; its bytes are counted as they arrive.

    Raises:
        RefusedError: it is empty, larger than `MAX_BYTES`, or slower than `MAX_READ_S`.
        ClientDisconnect: the sender disconnected.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MAX_DROPPED * MAX_BYTES:
        raise _too_large(int(announced))
    data = bytearray()
    n_bytes = 0
    try:
        async with asyncio.timeout(MAX_READ_S):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes <= MAX_BYTES:
                    data += chunk
                elif n_bytes > MAX_DROPPED * MAX_BYTES:
                    break
    except TimeoutError:
        reason = f"the image did not arrive within {MAX_READ_S:g} s; send a smaller one"
        raise RefusedError(408, reason, CLOSE) from None
    if n_bytes > MAX_BYTES:
        raise _too_large(n_bytes)
    if not data:
        raise RefusedError(400, "the file is empty")
    return bytes(data)


def _too_large(n_bytes: int) -> RefusedError:
    reason = (
        f"the file has at least {n_bytes / 1e6:.3g} MB; the limit is {MAX_BYTES / 1e6:g} MB. Try a smaller one"
    )
    return RefusedError(413, reason, CLOSE)
