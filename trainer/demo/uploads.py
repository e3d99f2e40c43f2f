"""Pictures that come in by POST: who may send them, how large they may be, how long sending may take."""

import asyncio

from starlette.datastructures import URL
from starlette.requests import Request

MOST_BYTES = 30_000_000
MOST_DROPPED = 4
"""Up to so many times `MOST_BYTES` is read to its end and dropped: a client that is cut off does not read why."""
PATIENCE_S = 30.0
"""How long the bytes of one picture may take; on loopback they take milliseconds, over a slow Wi-Fi seconds."""
OWN_SITE = ("same-origin", "none")


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        reason: what is wrong and what to do, for people.
        retry_after_s: when to try again, where that helps.
    """

    def __init__(self, status: int, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s


def check_sender(request: Request) -> None:
    """Refuse what another site's page makes a browser send: only this page may, and programs that are no browser.

    A form of another site cannot send these content types, a script of it cannot without asking first.
    """
    origin = request.headers.get("origin")
    # The scheme is left out: a tunnel may give the page another than it has here.
    if origin is not None and origin.partition("://")[2] != URL(scope=request.scope).netloc:
        raise RefusedError(403, f"this page takes pictures from itself, not from {origin}")
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITE:
        raise RefusedError(403, "this page takes pictures from itself, not from another site")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith("image/") and kind != "application/octet-stream":
        raise RefusedError(
            415, f"send the bytes of a picture as image/* or application/octet-stream, not as {kind or 'nothing'}"
        )


async def read(request: Request) -> bytes:
    """The body, counted while it comes in.

    Raises:
        RefusedError: it is empty, larger than `MOST_BYTES`, or slower than `PATIENCE_S`.
        ClientDisconnect: the sender left.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MOST_DROPPED * MOST_BYTES:
        raise _too_large(int(announced))
    data = bytearray()
    n_bytes = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes <= MOST_BYTES:
                    data += chunk
                elif n_bytes > MOST_DROPPED * MOST_BYTES:
                    break
    except TimeoutError:
        raise RefusedError(
            408, f"the picture did not arrive within {PATIENCE_S:g} s; send a smaller one"
        ) from None
    if n_bytes > MOST_BYTES:
        raise _too_large(n_bytes)
    if not data:
        raise RefusedError(400, "the file is empty, it has no bytes; choose a picture")
    return bytes(data)


def _too_large(n_bytes: int) -> RefusedError:
    return RefusedError(
        413,
        f"the file has {n_bytes / 1e6:.3g} MB or more, the page takes {MOST_BYTES / 1e6:g} MB; "
        "save it as JPEG, or with fewer pixels",
    )
