"""Checks and reads posted images: their sender, their size, and the time that sending takes."""

import asyncio
from collections.abc import Mapping

from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES = 30_000_000
MAX_DROPPED = 4
"""Bodies up to so many times `MAX_BYTES` are read and dropped: clients that are cut off do not read the reason."""
MAX_READ_S = 30.0
"""Time limit for the bytes of one image; they take milliseconds on loopback and seconds over slow Wi-Fi."""
MAX_UPLOADS = 64
MAX_HELD_BYTES = 8 * MAX_BYTES
"""Limits for images that are being sent, together. Beyond them, the one that has been sent for longest is refused,
so that senders that are slow, or that stop, leave room for all others."""
RETRY_AFTER_S = 2
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


class Uploads:
    """The images that are being sent."""

    def __init__(self) -> None:
        self._held: dict[asyncio.Timeout, int] = {}
        """Bytes of each image that have arrived, in the order in which they began."""

    async def read(self, request: Request) -> bytes:
        """Read the body; its bytes are counted as they arrive.

        Raises:
            RefusedError: it is empty, larger than `MAX_BYTES`, slower than `MAX_READ_S`, or too slow to be kept
                while others are sent.
            ClientDisconnect: the sender disconnected.
        """
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > MAX_DROPPED * MAX_BYTES:
            raise _too_large(int(announced))
        data = bytearray()
        n_bytes = 0
        limit = asyncio.timeout(MAX_READ_S)
        try:
            async with limit:
                self._held[limit] = 0
                self._make_room()
                async for chunk in request.stream():
                    n_bytes += len(chunk)
                    if n_bytes <= MAX_BYTES:
                        data += chunk
                        if limit in self._held:
                            self._held[limit] = n_bytes
                            self._make_room()
                    elif n_bytes > MAX_DROPPED * MAX_BYTES:
                        break
        except TimeoutError:
            if limit not in self._held:
                raise busy("others send images, and this one was sent for longest", CLOSE) from None
            reason = f"the image did not arrive within {MAX_READ_S:g} s; send a smaller one"
            raise RefusedError(408, reason, CLOSE) from None
        finally:
            self._held.pop(limit, None)
        if n_bytes > MAX_BYTES:
            raise _too_large(n_bytes)
        if not data:
            raise RefusedError(400, "the file is empty")
        return bytes(data)

    def _make_room(self) -> None:
        """End the oldest ones until all are within the limits."""
        while len(self._held) > MAX_UPLOADS or sum(self._held.values()) > MAX_HELD_BYTES:
            oldest = next(iter(self._held))
            del self._held[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())


def busy(reason: str, headers: Mapping[str, str]) -> RefusedError:
    """The refusal of an image for a reason that will pass."""
    retry = {"Retry-After": str(RETRY_AFTER_S), **headers}
    return RefusedError(503, f"{reason}; try again in {RETRY_AFTER_S} s", retry)


def _too_large(n_bytes: int) -> RefusedError:
    reason = (
        f"the file has at least {n_bytes / 1e6:.3g} MB; the limit is {MAX_BYTES / 1e6:g} MB. Try a smaller one"
    )
    return RefusedError(413, reason, CLOSE)
