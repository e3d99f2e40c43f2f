"""The web application: predictions of posted images, and whether the model answers.

Nothing is stored. A line says of each request what it was and what became of it, without its images.
"""

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving.maps import FullError, Maps
from serving.model import Loaded, ServedModel
from serving.settings import HEALTH, MODEL, PREDICT, Contract, ServerConfig
from trainer.errors import UserError
from trainer.models import MODEL_NAME

GRACE_S = 60
"""Seconds in which requests may end after SIGTERM."""
CLIENT_LEFT = 499
"""nginx's status for a client that closed the connection."""
INSTANCE = '{"b64": "..."} or {"image_bytes": {"b64": "..."}}'


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a request asks for."""

    images: list[str]
    """Files in base64."""
    kind: str
    """PICTURE or PAGE. Empty to decide for each image."""


def build_app(
    model: ServedModel, maps: Maps, config: ServerConfig, contract: Contract, say: Callable[[str], None]
) -> Starlette:
    """Build the application.

    Args:
        model: answers once it is loaded.
        maps: computes predictions.
        config: the limits of a request.
        contract: more paths that are answered.
        say: gets a line for each request.
    """
    app = _App(model, maps, config, say)
    predict = dict.fromkeys(filter(None, (PREDICT, contract.predict)))
    health = dict.fromkeys(filter(None, (HEALTH, MODEL, contract.health)))
    routes = [
        Route("/", app.alive),
        Route("/v1/models", app.names),
        *(Route(path, app.health) for path in health if path != "/"),
        *(Route(path, app.predict, methods=["POST"]) for path in predict),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refuse})


def build_server(app: Starlette, config: ServerConfig) -> uvicorn.Server:
    """Build a server that answers what has begun when it is told to stop, and writes no log of its own."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=config.host,
            port=config.port,
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


class _App:
    """Answers the requests."""

    def __init__(self, model: ServedModel, maps: Maps, config: ServerConfig, say: Callable[[str], None]) -> None:
        self._model, self._maps, self._config, self._say = model, maps, config, say
        self._bytes_left = int(config.most_waiting_megabytes * 10**6)

    async def alive(self, request: Request) -> Response:
        """Answer that the server runs, loaded or not."""
        return JSONResponse({"status": "alive"})

    async def names(self, request: Request) -> Response:
        """List the model, as the V1 protocol asks."""
        return JSONResponse({"models": [MODEL_NAME]})

    async def health(self, request: Request) -> Response:
        """Say which model answers. 503 until it is loaded."""
        loaded = self._model.loaded
        if loaded is None:
            return JSONResponse({"name": MODEL_NAME, "ready": False}, 503)
        predictor = loaded.predictor
        facts = {"model": loaded.description, "runtime": predictor.runtime, "image_sizes": predictor.image_sizes}
        return JSONResponse({"name": MODEL_NAME, "ready": True, **facts})

    async def predict(self, request: Request) -> Response:
        """Answer with the prediction of each instance, in their order."""
        begin, what = time.perf_counter(), "no images"
        try:
            with self._holding() as hold:
                asked, n_bytes = await self._asked(request, hold)
                what = f"{len(asked.images)} images, {n_bytes / 1e6:.1f} MB"
                predictions = await self._predictions(request, asked)
                failed = sum("error" in each for each in predictions)
                what += f", {failed} of them no image" if failed else ""
                left = len(predictions) < len(asked.images)
                response = Response(status_code=CLIENT_LEFT) if left else await _as_json(predictions)
        except FullError as error:
            detail = HTTPException(429, str(error), {"Retry-After": str(error.retry_s)})
            response, what = await _refuse(request, detail), f"{what}: {error}"
        except HTTPException as error:
            response, what = await _refuse(request, error), f"{what}: {error.detail}"
        except ClientDisconnect:
            response = Response(status_code=CLIENT_LEFT)
        milliseconds = 1000 * (time.perf_counter() - begin)
        self._say(f"{request.url.path} {response.status_code} {milliseconds:.0f} ms, {what}")
        return response

    @contextmanager
    def _holding(self) -> Iterator[Callable[[int], None]]:
        """A context with a function that takes bytes until its end. The function raises `FullError`."""
        held = 0

        def hold(n: int) -> None:
            nonlocal held
            if n > self._bytes_left:
                raise FullError(self._maps.seconds(1), "too many megabytes")
            self._bytes_left -= n
            held += n

        try:
            yield hold
        finally:
            self._bytes_left += held

    async def _asked(self, request: Request, hold: Callable[[int], None]) -> tuple[Asked, int]:
        """What a request asks for, and its bytes. Raises `HTTPException` with its reason, and as `hold`."""
        most = self._config.most_bytes
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise HTTPException(413, f"the request has more than {most / 1e6:g} MB: send fewer images")
            hold(len(chunk))
        return await asyncio.to_thread(parse_request, body, self._config.most_images), len(body)

    async def _predictions(self, request: Request, asked: Asked) -> list[dict[str, Any]]:
        loaded = self._loaded()
        try:
            loaded.predictor.check_kind(asked.kind)
            return await self._maps.predict(loaded.predictor, asked.images, asked.kind, request.receive)
        except UserError as error:
            raise HTTPException(400, str(error)) from None

    def _loaded(self) -> Loaded:
        if self._model.loaded is None:
            raise HTTPException(503, "the model is being loaded", {"Retry-After": "5"})
        return self._model.loaded


def parse_request(body: bytes | bytearray, most_instances: int) -> Asked:
    """Parse the JSON of a predict request.

    Raises:
        HTTPException: it is not such a request, or has too many instances.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, f'the request is not JSON: send {{"instances": [{INSTANCE}, ...]}}') from None
    instances = content.get("instances") if isinstance(content, dict) else None
    if not isinstance(instances, list) or not instances:
        raise HTTPException(400, f'the request has no instances: send {{"instances": [{INSTANCE}, ...]}}')
    if len(instances) > most_instances:
        raise HTTPException(413, f"the request has {len(instances)} instances: send at most {most_instances}")
    parameters = content.get("parameters") or {}
    kind = parameters.get("kind", "") if isinstance(parameters, dict) else None
    if not isinstance(kind, str):
        raise HTTPException(400, 'parameters are not such as {"kind": "page"}')
    return Asked([_image_of(instance, index) for index, instance in enumerate(instances)], kind)


def _image_of(instance: Any, index: int) -> str:
    inner = instance.get("image_bytes", instance) if isinstance(instance, dict) else None
    encoded = inner.get("b64") if isinstance(inner, dict) else None
    if not isinstance(encoded, str):
        raise HTTPException(400, f"instance {index} is not {INSTANCE}")
    return encoded


async def _as_json(predictions: list[dict[str, Any]]) -> Response:
    # In a thread: a map of many megapixels takes a while.
    content = await asyncio.to_thread(lambda: json.dumps({"predictions": predictions}).encode())
    return Response(content, media_type="application/json")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
