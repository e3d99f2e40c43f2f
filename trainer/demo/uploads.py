"""Checks and reads posted images: their sender and their size."""

from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES = 30_000_000
OWN_SITE = ("same-origin", "none")


class RefusedError(HTTPException):
    """A request that is refused: the HTTP status, what is wrong and what to do."""


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
    """Read the body of a request; its bytes are counted as they arrive.

    Raises:
        RefusedError: it is empty, or larger than `MAX_BYTES`.
        ClientDisconnect: the sender disconnected.
    """
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BYTES:
            raise RefusedError(413, f"the file has more than {MAX_BYTES / 1e6:g} MB; try a smaller one")
    if not data:
        raise RefusedError(400, "the file is empty")
    return bytes(data)
