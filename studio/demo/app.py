"""The web application and its server: the page, checks of posted images, and their maps, one at a time.

A full-page screenshot is predicted screen by screen as `predict` does it, or as a whole if the page asks for it.
Nothing is stored or logged.
"""

import dataclasses
import io
import ipaddress
import json
import pathlib
import re
import socket
import webbrowser
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any
from urllib.parse import quote
from urllib.request import url2pathname

import numpy as np
import uvicorn
from numpy.typing import NDArray
from PIL import Image
from starlette.applications import Starlette
from starlette.datastructures import URL, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.browser_settings import PageConfig
from studio.demo.turns import StoppedError, Tell, Turns
from studio.designs import offered
from studio.difference import CLEAR_MOVED, Pixels
from studio.web_pages import file_name, is_address, is_page, open_page
from trainer.api import (
    Change,
    Model,
    SaliencyMap,
    SettingError,
    UserError,
    blend,
    draw_grey,
    read_picture,
)
from trainer.tools import COLORS_CSS, FORMATS, PredictConfig, check, drawing_rules, local_path

PAGE = pathlib.Path(__file__).parent / "page"
PICTURE, PAGE_KIND = Model.KINDS
MAX_BYTES = 30_000_000
"""Size of the largest image that may be posted."""
MAX_PIXELS = 50_000_000
"""Pixels of the largest image. Nearly all phone cameras stay below. A map needs 650 MB while it is resized."""
MAX_MAP_PX = 1024
"""Longest side of the map for the page. A larger one would look the same."""
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
GRACE_S = 5
"""Seconds to wait for a running prediction after Ctrl-C."""
MEANINGS = {
    "Share": "The part of all attention on the image that falls into the region. On a page that is seen screen by "
    "screen, the part of the screen that has most of the region, and so for all figures.",
    "Floor": "The share that the place keeps when the region is painted over with the colour around it. What the "
    "share is above it, the content gets.",
    "Area": "The part of the image that the region covers.",
    "Ratio": "Share divided by area. 1\N{MULTIPLICATION SIGN} is evenly spread attention, "
    "3\N{MULTIPLICATION SIGN} is three times as much.",
    "Peak": "The region's hottest point, compared with the hottest point of the image (100%).",
    "Rank": "1 for the region with the largest share.",
    "pp": "Percentage points: from 10% to 15% is +5 pp.",
    "No clear change": f"The shares differ by at most {Change.CLEAR_PART:.0%} of the larger, and by at most "
    f"{100 * Change.CLEAR_SHARE:g} pp, as they do when the same image is saved again, scaled or moved by 4 "
    "pixels.",
}
"""Column or unit of the table of regions -> explanation."""
PRIVACY = "Images are sent only to this program, which does not store them."
CAUTION = (
    "A prediction of where people look in the first seconds when nobody has given them a task. It does not "
    "replace a test with people."
)
REGION_COLORS = ("#ffffff", "#56b4e9", "#f0c929", "#3ddc97", "#ff9e5e", "#e58ac0", "#b9a3ff", "#b5e853")
"""Colours of the regions in order, then again from the first. They are light because boxes have a dark outline."""
OWN_SITE = ("same-origin", "none")
"""Values of the header Sec-Fetch-Site for requests that no other site has made."""
BYTES = "application/octet-stream"
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
        "require-trusted-types-for 'script'",
    )
)
"""What the page may run and load: its own files alone. Holds as a header and as an element of the page."""
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), display-capture=()",
    "Cache-Control": "no-store",  # keeps images out of the browser's cache
}
"""Headers of every response: the browser may run and load only what this server sends."""
Predict = Callable[[Tell], tuple[Pixels, SaliencyMap]]
"""Returns a posted image (h, w, 3) and its map (h, w) in 0..1."""


def build_app(model: Model, hosts: Sequence[str], pages: PageConfig | None = None) -> Starlette:
    """Build the application for one model.

    Args:
        model: predicts one image at a time. The page shows its description, notice and hint.
        hosts: allowed values of the header Host. `*` allows any. The list blocks DNS rebinding.
        pages: how posted web addresses are opened, by this machine and from its network. None to refuse them.
    """
    app = _App(model, pages)
    routes = [
        Route("/facts", app.facts),
        Route("/colors.css", _colors_css),
        Route("/picture", app.picture, methods=["POST"]),
        Route("/map", app.map, methods=["POST"]),
        Route("/map.png", app.map_png, methods=["POST"]),
        Route("/overlay.png", app.overlay_png, methods=["POST"]),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    middleware = [Middleware(_SecurityHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    handlers = {HTTPException: _refuse, ClientDisconnect: _client_left}
    built = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
    built.state.turns = app.turns
    return built


def facts(model: Model, formats: str, privacy: str, opens_addresses: bool) -> dict[str, Any]:
    """What the page shows about a model, the limits that it checks, and the colours.

    Args:
        model: that predicts.
        formats: names of the formats that can be opened.
        privacy: a sentence that says where images go.
        opens_addresses: whether the page asks for addresses of web pages.
    """
    return {
        "model": model.description,
        "notice": model.notice,
        "hint": model.hint,
        "hints": {kind: model.hint_of(kind) for kind in Model.KINDS},
        "formats": formats,
        "privacy": privacy,
        "opens_addresses": opens_addresses,
        "kinds": {
            kind: {"image_size": size, "seen_as": model.seen_as(float(kind == PAGE_KIND))}
            for kind, size in model.image_sizes.items()
        },
        "max_bytes": MAX_BYTES,
        "max_pixels": MAX_PIXELS,
        "max_map_px": MAX_MAP_PX,
        "meanings": MEANINGS,
        "caution": CAUTION,
        "region_colors": REGION_COLORS,
        "clear": {"part": Change.CLEAR_PART, "share": Change.CLEAR_SHARE, "moved": CLEAR_MOVED},
        **drawing_rules(),
    }


# === Requests ===


class _App:
    """Answers the requests that need the model."""

    def __init__(self, model: Model, pages: PageConfig | None) -> None:
        self.model, self.pages = model, pages
        self.turns = Turns()

    async def facts(self, request: Request) -> Response:
        """Return `facts`."""
        return JSONResponse(facts(self.model, FORMATS.names, PRIVACY, self.pages is not None))

    async def picture(self, request: Request) -> Response:
        """Return the elements and the picture of the page at the posted web address, or the picture that it is.

        A path of an HTML file on this machine is an address, too. The body begins with JSON, as long as the header
        Elements-Bytes says, and the picture follows. The header Picture-Name has a file name, with %XX as in
        addresses. The query's `whole` has any value for the whole page, and none for what a window shows of it.
        """
        check_sender(request)
        if self.pages is None:
            raise HTTPException(403, "this server opens no addresses, since others can reach it: choose an image")
        given = (await read_body(request)).decode(errors="replace").strip()
        address = _address_of(given)
        config = dataclasses.replace(self.pages, full_page=bool(request.query_params.get("whole")))

        def work(tell: Tell) -> Response:
            tell("Opening the page…")
            check(
                is_page(address),
                f"{address} is no web address or HTML file: give one such as https://example.com or ~/page.html",
                SettingError,
            )
            name = file_name(address) if is_address(address) else f"{pathlib.PurePath(address).stem}.png"
            shown = open_page(address, (), config, MAX_PIXELS, with_offers=True)
            found = offered(shown) if shown.offers else []
            elements = json.dumps([{"kind": kind} | dataclasses.asdict(region) for kind, region in found]).encode()
            headers = {"picture-name": quote(name), "elements-bytes": str(len(elements))}
            return Response(elements + shown.content, media_type=BYTES, headers=headers)

        return await self._in_turn(request, work)

    async def map(self, request: Request) -> Response:
        """Stream what is waited for, and then the posted image's map for the page.

        Each line is a JSON object: a text that is `waiting`, or at the end an `error`, or the map's facts, after
        which the map follows, packed by `pack_maps`. The map of each screen is reduced by `shrink_maps`: sums over
        regions stay the same. The facts are the size of one such map, the image's size, its rows on each screen,
        and as what it was seen.
        In the query, `kind` asks for a kind, and `page` for the weight of another image.

        Example: `{"width": 640, "height": 400, ..., "windows": [[0, 800], [800, 1600], [1372, 2172]]}`.
        """
        predict = await self._asked(request)

        def work(tell: Tell) -> bytes:
            image, full = predict(tell)
            small = shrink_maps(full)
            facts = {
                "width": small.shape[2],
                "height": small.shape[1],
                "imageWidth": image.shape[1],
                "imageHeight": image.shape[0],
                "windows": [[rows.start, rows.stop] for rows, _ in full.screens],
                "kind": full.kind,
                "page": full.page,
                "seenAs": self.model.seen_as(full.page),
            }
            return _line(facts) + pack_maps(small)

        async def lines() -> AsyncIterator[bytes]:
            try:
                async for told in self.turns.take(work):
                    yield told if isinstance(told, bytes) else _line({"waiting": told})
            except UserError as error:
                yield _line({"error": str(error)})
            except StoppedError:
                pass  # without its last line, the page knows that the server is gone

        return StreamingResponse(lines(), media_type=BYTES)

    async def map_png(self, request: Request) -> Response:
        """Return the map at the image's own size as a PNG with 8 bits of grey, as `predict` writes it."""
        predict = await self._asked(request)
        return await self._in_turn(request, lambda tell: _png(draw_grey(predict(tell)[1])))

    async def overlay_png(self, request: Request) -> Response:
        """Return a PNG of the map over the image, as `predict` draws it. The query has the opacity, 0..1.

        Example: `/overlay.png?opacity=0.6`.
        """
        try:
            opacity = float(request.query_params.get("opacity", PredictConfig.opacity))
        except ValueError:
            opacity = -1
        if not 0 <= opacity <= 1:
            raise HTTPException(400, "opacity must be a number from 0 to 1")

        predict = await self._asked(request)

        def work(tell: Tell) -> Response:
            image, full = predict(tell)
            return _png(Image.fromarray(blend(image, full, opacity)))

        return await self._in_turn(request, work)

    async def _asked(self, request: Request) -> Predict:
        """Read an image and what is asked for. Raises `HTTPException` with a status and a reason."""
        check_sender(request)
        screen = _one_of(request, "screen", ("", *Model.SCREENS), "")
        kind = _one_of(request, "kind", ("", *Model.KINDS), "")
        page = request.query_params.get("page", "")
        if page and not re.fullmatch(r"[01](\.\d+)?", page):
            raise HTTPException(400, "page must be a number from 0 to 1")
        data = await read_body(request)

        def predict(tell: Tell) -> tuple[Pixels, SaliencyMap]:
            def begin(number: int, count: int) -> None:
                tell(f"Predicting screen {number} of {count}…" if count > 1 else "Predicting…")

            image = read_picture(data, "the file", MAX_PIXELS)
            asked = float(page) if page else kind if self.model.seen_as(0) else ""
            return image, self.model.predict(image, screen, asked, begin=begin)

        return predict

    async def _in_turn(self, request: Request, work: Callable[[Tell], Response]) -> Response:
        """Do the work of a request after others' work. Raises `HTTPException` with its reason."""
        try:
            async for told in self.turns.take(work):
                if isinstance(told, Response):
                    return told
                if await request.is_disconnected():
                    break
        except UserError as error:
            raise HTTPException(422, str(error)) from None
        except StoppedError:
            raise HTTPException(503, "the program behind this page is being stopped") from None
        return Response(status_code=CLIENT_LEFT)


def check_sender(request: Request) -> None:
    """Refuse cross-origin requests of browsers. This page, and programs other than browsers, may send requests.

    A form of another site cannot send these content types, and its scripts need a preflight request for them.

    Raises:
        HTTPException: the request is cross-origin, or has another content type than an image's or BYTES.
    """
    origin = request.headers.get("origin")
    # Without the scheme, which a tunnel may change.
    is_foreign = origin is not None and origin.partition("://")[2] != URL(scope=request.scope).netloc
    if is_foreign or request.headers.get("sec-fetch-site", "none") not in OWN_SITE:
        raise HTTPException(403, "this server accepts requests from its own page, not from another site")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith("image/") and kind != BYTES:
        raise HTTPException(415, f"send bytes as image/* or {BYTES}")


async def read_body(request: Request) -> bytes:
    """Read the body of a request. Its bytes are counted as they arrive.

    Raises:
        HTTPException: it has more than MAX_BYTES.
        ClientDisconnect: the sender disconnected.
    """
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BYTES:
            raise HTTPException(413, f"the file has more than {MAX_BYTES / 1e6:g} MB: try a smaller one")
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


def _address_of(given: str) -> str:
    """Return the address or HTML file that is meant: `example.com/a.html` is an address unless it is a file."""
    file = url2pathname(given.removeprefix("file://")) if given.startswith("file://") else given
    is_there = is_page(file) and (file.startswith(("/", "~", ".")) or local_path(file.partition("#")[0]).is_file())
    return file if is_there or "://" in given else f"https://{given}"


async def _colors_css(request: Request) -> Response:
    return FileResponse(COLORS_CSS, media_type="text/css")


def _one_of(request: Request, name: str, values: Collection[str], default: str) -> str:
    """Return a value of the query. Raises `HTTPException` if it is not among `values`."""
    value = request.query_params.get(name, default)
    if value not in values:
        raise HTTPException(400, f"{name} must be one of {', '.join(filter(None, values))}")
    return value


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)


# === Maps ===


def shrink_maps(map: SaliencyMap) -> NDArray[np.float32]:
    """Average areas of a map, (n, h, w) of its n screens, until its longer side has at most MAX_MAP_PX.

    The maps of several screens have at most the square of MAX_MAP_PX values together. For example, two screens of
    800 x 1280 pixels become two of 640 x 1024.
    """
    screens = [screen.map for screen in map.screens]
    height, width = screens[0].shape
    n_rows = height * len(screens)
    scale = min(1, MAX_MAP_PX / (max(height, width) if len(screens) == 1 else (n_rows * width) ** 0.5))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.stack([np.asarray(Image.fromarray(each).resize(size, Image.Resampling.BOX)) for each in screens])


def pack_maps(maps: NDArray[np.float32]) -> bytes:
    """Pack maps (n, h, w) in 0..1 with 16 bits, which the page unpacks.

    Smooth maps have small differences from column to column and from row to row. They are written without their
    sign, 0, -1, 1, -2, ... as 0, 1, 2, 3, ..., first all low bytes, then all high ones, deflated.
    """
    levels = np.rint(maps.reshape(-1, maps.shape[2]) * 65535).astype(np.uint16)
    zero = np.uint16(0)
    steps = np.diff(np.diff(levels, axis=1, prepend=zero), axis=0, prepend=zero).astype(np.int16)
    codes = (steps << 1) ^ (steps >> 15)
    return zlib.compress(codes.astype("<i2").view(np.uint8).reshape(-1, 2).T.tobytes())


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _png(image: Image.Image) -> Response:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return Response(buffer.getvalue(), media_type="image/png")


# === The server ===


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(host: str) -> list[str]:
    """Return the values of the header Host that a server on `host` accepts. `*` stands for any."""
    return [*LOOPBACK_NAMES, host] if is_loopback(host) else ["*"]


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address. Port 0 chooses a free port.

    Raises:
        UserError: the address or the port cannot be used.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise SettingError(
            f"cannot listen on {host}, port {port} ({reason}): give another --port or --host"
        ) from None
    return bound


class _Server(uvicorn.Server):
    """A server that ends what it does for the page when it is stopped, so that nobody waits for it."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.turns.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def build_server(app: Starlette) -> uvicorn.Server:
    """Build a server that logs no requests and does not name itself in headers."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    return _Server(config)


def serve_demo(model: Model, bound: socket.socket, host: str, open_browser: bool, pages: PageConfig) -> None:
    """Serve on the socket `bound` until Ctrl-C or SIGTERM. Prints the address when the page is ready.

    Where others can reach `host`, no web addresses are opened for them.
    """
    opened = pages if is_loopback(host) else None
    app = build_app(model, host_names(host), opened)
    if not is_loopback(host):
        print(
            f"warning: everyone who can reach {host} can use the page. It has no password and no encryption. "
            "Without --host, only this machine can reach it",
            flush=True,
        )
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"
    if model.notice:
        print(f"note: {model.notice}", flush=True)
    print(f"{model.name} is served at {address} (press Ctrl-C to stop)", flush=True)
    if open_browser:
        webbrowser.open(address)
    try:
        build_server(app).run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn raises it again after it has shut down
        print("stopped")
