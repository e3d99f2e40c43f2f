"""The web application: serves the page, checks posted images, and returns their maps, one at a time.

It stores and logs nothing.
"""

import asyncio
import functools
import pathlib
from collections.abc import Callable, Collection, Sequence

import numpy as np
from matplotlib.colors import Colormap, to_hex
from starlette.applications import Starlette
from starlette.datastructures import URL, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainer import heat
from trainer.demo import responses
from trainer.errors import UserError
from trainer.prediction.predictor import Predictor

PAGE = pathlib.Path(__file__).parent / "page"
COLORS = pathlib.Path(__file__).parents[1] / "reports" / "templates" / "colors.css"
MAX_BYTES = 30_000_000
"""Size of the largest image that may be posted."""
OWN_SITE = ("same-origin", "none")
"""Values of the header Sec-Fetch-Site for requests that no other site has made."""
CLIENT_LEFT = 499
"""nginx's status for a client that closed the connection."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # the chosen image
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), display-capture=()",
    "Cache-Control": "no-store",  # keeps images out of the browser's cache
}
"""Headers of every response: the browser may run and load only what this server sends."""


class RefusedError(HTTPException):
    """A request that is refused: the HTTP status, what is wrong and what to do."""


def build_app(
    predictor: Predictor, model: str, hosts: Sequence[str], notice: str = "", hint: str = ""
) -> Starlette:
    """Build the application for one model.

    Args:
        predictor: predicts one image at a time.
        model: what the page calls it.
        hosts: allowed values of the header Host; `*` allows any. The list blocks DNS rebinding.
        notice: what the model must say about itself; empty if nothing.
        hint: how far its maps can be trusted, in a quieter form; empty if nothing is known.
    """
    app = _App(predictor, model, notice, hint)
    routes = [
        Route("/facts", app.facts),
        Route("/colors.css", _colors_css),
        Route("/pattern/{number}.png", _pattern),
        Route("/map", app.map, methods=["POST"]),
        Route("/map.png", app.map_png, methods=["POST"]),
        Route("/overlay.png", app.overlay_png, methods=["POST"]),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    middleware = [Middleware(_SecurityHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    handlers = {RefusedError: _refuse, ClientDisconnect: _client_left}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class _App:
    """Answers the requests that need the model."""

    def __init__(self, predictor: Predictor, model: str, notice: str, hint: str) -> None:
        self.predictor, self.model, self.notice, self.hint = predictor, model, notice, hint
        self.turn = asyncio.Lock()

    async def facts(self, request: Request) -> Response:
        """Return the model's name and input size, the limits that the page checks, and the colours."""
        return JSONResponse(
            {
                "model": self.model,
                "notice": self.notice,
                "hint": self.hint,
                "image_size": self.predictor.image_size,
                "max_bytes": MAX_BYTES,
                "screens": {name: [width, height] for name, (height, width) in responses.SCREENS.items()},
                "tall": responses.TALL,
                "meanings": responses.MEANINGS,
                "caution": responses.CAUTION,
                "region_colors": responses.COLORS,
                "heat": _colors(heat.HEAT),
                "change": _colors(heat.CHANGE),
                "opacity": heat.OPACITY,
                "dimmed": heat.DIMMED,
            }
        )

    async def map(self, request: Request) -> Response:
        """Return the posted image's map for the page."""
        return await self._respond(request, functools.partial(responses.map_for_page, screen=_screen(request)))

    async def map_png(self, request: Request) -> Response:
        """Return the posted image's map as a PNG."""
        return await self._respond(request, functools.partial(responses.map_png, screen=_screen(request)))

    async def overlay_png(self, request: Request) -> Response:
        """Return the posted image's overlay as a PNG; the query has the opacity, 0..1, and the view."""
        try:
            opacity = float(request.query_params.get("opacity", "1"))
        except ValueError:
            opacity = -1
        if not 0 <= opacity <= 1:
            raise RefusedError(400, "opacity must be a number from 0 to 1")
        view = _one_of(request, "view", responses.VIEWS, "heat")
        draw = functools.partial(responses.overlay_png, screen=_screen(request), opacity=opacity, view=view)
        return await self._respond(request, draw)

    async def _respond(self, request: Request, respond: Callable[[Predictor, bytes, str], Response]) -> Response:
        """Read the posted image and respond in its turn; raises `RefusedError` with a status and a reason."""
        check_sender(request)
        data = await read_body(request)
        async with self.turn:
            if await request.is_disconnected():
                return Response(status_code=CLIENT_LEFT)
            try:
                return await asyncio.to_thread(respond, self.predictor, data, "the file")
            except UserError as error:
                raise RefusedError(422, str(error)) from None


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


async def read_body(request: Request) -> bytes:
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


class _SecurityHeaders:
    """Middleware that sets `HEADERS` on every response, also on refusals."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


async def _colors_css(request: Request) -> Response:
    return FileResponse(COLORS, media_type="text/css")


async def _pattern(request: Request) -> Response:
    """Return a generated odd-one-out pattern, as an example."""
    try:
        number = int(request.path_params["number"])
    except ValueError:  # not an integer, or more digits than Python parses
        raise RefusedError(404, "no such pattern; patterns have integers as names") from None
    return responses.pattern(number)


def _screen(request: Request) -> str:
    """Return the kind of screen in `screens.SCREENS` that the query names; empty for none."""
    return _one_of(request, "screen", ["", *responses.SCREENS], "")


def _one_of(request: Request, name: str, values: Collection[str], default: str) -> str:
    """Return a value of the query; raises `RefusedError` if it is not among `values`."""
    value = request.query_params.get(name, default)
    if value not in values:
        raise RefusedError(400, f"{name} must be one of {', '.join(filter(None, values))}")
    return value


def _colors(colors: Colormap) -> list[str]:
    """Return 256 colours of a colour map as #rrggbb."""
    return [to_hex(color) for color in colors(np.linspace(0, 1, 256))]


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)
