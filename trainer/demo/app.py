"""The web application: the page, what it needs to know, and pictures in, maps out. Keeps nothing, logs nothing."""

import dataclasses
import functools
import pathlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
from matplotlib.colors import Colormap, to_hex
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from trainer import heat
from trainer.demo import answers, patterns, uploads
from trainer.demo.headers import SecurityHeaders
from trainer.demo.queue import FullError, Queue
from trainer.demo.uploads import RefusedError
from trainer.errors import UserError
from trainer.prediction import render
from trainer.prediction.predictor import Predictor

PAGE = pathlib.Path(__file__).parent / "page"
COLORS = pathlib.Path(__file__).parents[1] / "reports" / "templates" / "colors.css"
MOST_WAITING = 8
"""Pictures that are read, wait or are predicted at once, 240 MB of bytes; answers on their way are not counted."""
RETRY_AFTER_S = 2
CUT_OFF = (408, 413)
"""Statuses after which nothing more is read; after others the server drops what is still on its way."""
LEFT = 499
"""Status of an answer to nobody, as nginx calls it."""


def build_app(predictor: Predictor, model: str, hosts: Sequence[str]) -> Starlette:
    """The page for one model.

    Args:
        predictor: is called in one thread, one picture at a time.
        model: what the page calls it.
        hosts: names that a browser may call this server by; `*` is any. Another site that has its name lead to
            this machine is refused by them.
    """
    return _App(predictor, model).starlette(hosts)


@dataclasses.dataclass
class _App:
    predictor: Predictor
    model: str
    queue: Queue = dataclasses.field(default_factory=lambda: Queue(MOST_WAITING))

    def starlette(self, hosts: Sequence[str]) -> Starlette:
        routes = [
            Route("/facts", self.facts),
            Route("/colors.css", self.colors),
            Route("/pattern/{number}.png", self.pattern),
            Route("/map", self.map, methods=["POST"]),
            Route("/map.png", self.map_png, methods=["POST"]),
            Route("/overlay.png", self.overlay_png, methods=["POST"]),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ]
        middleware = [Middleware(SecurityHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
        handlers = {RefusedError: _refuse, ClientDisconnect: _left}
        return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self.queue.close()

    async def facts(self, request: Request) -> Response:
        """What the page shows of the model, the limits that it can check before it sends, and the colours."""
        return JSONResponse(
            {
                "model": self.model,
                "image_size": self.predictor.image_size,
                "most_bytes": uploads.MOST_BYTES,
                "most_pixels": answers.MOST_PIXELS,
                "heat": _colors(heat.HEAT),
                "change": _colors(heat.CHANGE),
                "opacity": heat.OPACITY,
                "dimmed": heat.DIMMED,
                "levels": render.LEVELS,
                "lines": render.level_colors(render.LEVELS),
                "ink": render.INK,
                "halo": render.HALO,
            }
        )

    async def colors(self, request: Request) -> Response:
        return FileResponse(COLORS, media_type="text/css")

    async def pattern(self, request: Request) -> Response:
        """A drawn odd-one-out pattern, for those who have no picture at hand."""
        try:
            number = int(request.path_params["number"])
        except ValueError:  # no digits, or more of them than Python reads
            raise RefusedError(404, "there is no such pattern; ask for one by a number") from None
        return Response(patterns.draw(number), media_type="image/png")

    async def map(self, request: Request) -> Response:
        return await self._predicted(request, answers.shown_map)

    async def map_png(self, request: Request) -> Response:
        return await self._predicted(request, answers.map_png)

    async def overlay_png(self, request: Request) -> Response:
        try:
            opacity = float(request.query_params.get("opacity", "1"))
        except ValueError:
            opacity = -1
        if not 0 <= opacity <= 1:
            raise RefusedError(400, "opacity is a number from 0 to 1")
        return await self._predicted(request, functools.partial(answers.overlay_png, opacity=opacity))

    async def _predicted(self, request: Request, answer: Callable[[Predictor, bytes, str], Response]) -> Response:
        uploads.check_sender(request)
        try:
            with self.queue.place():
                data = await uploads.read(request)
                work = functools.partial(answer, self.predictor, data, "the file")
                return await self.queue.run(work, _gone(request)) or Response(status_code=LEFT)
        except FullError:
            reason = f"{MOST_WAITING} pictures are waiting already; try again in {RETRY_AFTER_S} s"
            raise RefusedError(503, reason, RETRY_AFTER_S) from None
        except UserError as error:
            raise RefusedError(422, str(error)) from None


def _colors(colors: Colormap) -> list[str]:
    """Its 256 colours as #rrggbb."""
    return [to_hex(color) for color in colors(np.linspace(0, 1, 256))]


async def _gone(request: Request) -> None:
    """Ends when the client leaves; the body has been read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    headers = {}
    if error.status in CUT_OFF:
        headers["Connection"] = "close"
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse({"error": error.reason}, error.status, headers)


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=LEFT)
