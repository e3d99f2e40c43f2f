"""The maps of encoded images: some at a time in threads, within limits of memory, each as the answer says it."""

import asyncio
import base64
import binascii
import io
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from serving.settings import ServerConfig
from trainer.errors import ContentError, UserError
from trainer.pictures import Picture
from trainer.prediction import Predictor, draw_grey

Prediction = dict[str, Any]
Result = TypeVar("Result")


class FullError(Exception):
    """There are too many images, or too large requests, already."""

    def __init__(self, retry_s: int, what: str = "too many images") -> None:
        super().__init__(f"{what} are waiting. Send the request again later")
        self.retry_s = retry_s
        """Whole seconds until there is probably room."""


class Maps:
    """Computes maps in threads. Its methods are for one event loop."""

    def __init__(self, parallel: int, config: ServerConfig) -> None:
        """Start no thread yet. `parallel` networks compute at once, while another image is decoded or written."""
        self._n_threads = parallel + 1
        self._turns = _Turns[tuple[Prediction, float]](self._n_threads)
        self._pixels = _Budget(int(config.most_megapixels * 10**6))
        self._most_waiting = config.most_waiting
        self._waiting = 0
        self._mean_s = 0.5

    def close(self) -> None:
        """Compute what has begun, and nothing else."""
        self._turns.close()

    def seconds(self, n: int) -> int:
        """Whole seconds until this many of the images that wait are probably computed. At least 1."""
        return math.ceil(n * self._mean_s / self._n_threads)

    async def predict(
        self, predictor: Predictor, images: Sequence[str], kind: str, leaves: Callable[[], Awaitable[object]]
    ) -> list[Prediction]:
        """Compute the predictions of images in base64, in their order. Fewer if the client leaves.

        While several calls wait, each has one image computed in turn.

        Args:
            predictor: of the model.
            images: files in base64.
            kind: PICTURE or PAGE. Empty to decide for each image.
            leaves: awaited, it ends if nobody needs the predictions any more. Then images that wait are left out.

        Raises:
            FullError: too many images are waiting already. None of these does.
        """
        if self._waiting + len(images) > self._most_waiting:
            raise FullError(self.seconds(self._waiting + len(images) - self._most_waiting))
        self._waiting += len(images)
        futures = self._turns.submit([partial(self._timed, predictor, image, kind) for image in images])
        done = asyncio.gather(*map(self._finished, futures))
        leaving = asyncio.ensure_future(leaves())
        try:
            await asyncio.wait((done, leaving), return_when=asyncio.FIRST_COMPLETED)
            for future in futures:
                future.cancel()  # those that have not begun, if the client has left
            return [each for each in await done if each is not None]
        finally:
            leaving.cancel()

    async def _finished(self, future: "Future[tuple[Prediction, float]]") -> Prediction | None:
        try:
            prediction, seconds = await asyncio.wrap_future(future)
            self._mean_s += 0.1 * (seconds - self._mean_s)
            return prediction
        except asyncio.CancelledError:
            return None
        finally:
            self._waiting -= 1

    def _timed(self, predictor: Predictor, image: str, kind: str) -> tuple[Prediction, float]:
        begin = time.perf_counter()
        try:
            return self._predict(predictor, image, kind), time.perf_counter() - begin
        except UserError as error:
            return {"b64": "", "error": str(error)}, time.perf_counter() - begin

    def _predict(self, predictor: Predictor, image: str, kind: str) -> Prediction:
        picture = Picture(_decoded(image), "the image", self._pixels.whole)
        height, width = picture.size
        with self._pixels.taken(height * width):
            pixels = picture.decode()
            found = predictor.predict(pixels, kind=kind)
            drawn = draw_grey(found)
            drawn.save(png := io.BytesIO(), "PNG", compress_level=1)
        return {
            "b64": base64.b64encode(png.getvalue()).decode(),
            "kind": found.kind,
            "seen_as": predictor.seen_as(found.page),
            "windows": [[rows.start, rows.stop] for rows, _ in found.screens],
        }


def _decoded(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        raise ContentError("the image is not in base64: encode the bytes of its file") from None


class _Turns(Generic[Result]):
    """Runs lists of work in threads, one thing of each list in turn, so that a long list holds no other one up."""

    def __init__(self, n_threads: int) -> None:
        self._threads = ThreadPoolExecutor(n_threads, "maps")
        self._waiting: deque[deque[tuple[Future[Result], Callable[[], Result]]]] = deque()
        """The lists in the order of their turns, none of them empty. The threads have an entry for each thing."""
        self._changing = threading.Lock()

    def close(self) -> None:
        """Finish what has begun, and nothing else."""
        self._threads.shutdown(cancel_futures=True)

    def submit(self, work: Sequence[Callable[[], Result]]) -> "list[Future[Result]]":
        """Run a list of work, at least one, in its order. Returns the future of each."""
        futures: list[Future[Result]] = [Future() for _ in work]
        with self._changing:
            self._waiting.append(deque(zip(futures, work, strict=True)))
        for _ in work:
            self._threads.submit(self._run_next)
        return futures

    def _run_next(self) -> None:
        with self._changing:
            listed = self._waiting.popleft()
            future, work = listed.popleft()
            if listed:
                self._waiting.append(listed)
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # whoever waits for the future has it
                future.set_exception(error)


class _Budget:
    """A number of things that all threads together may take at a time, in the order in which they ask."""

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self._left = whole
        self._turn, self._change = threading.Lock(), threading.Condition()

    @contextmanager
    def taken(self, n: int) -> Iterator[None]:
        """Wait until `n` are left, at most the whole, and take them within this context."""
        with self._turn, self._change:
            self._change.wait_for(lambda: n <= self._left)
            self._left -= n
        try:
            yield
        finally:
            with self._change:
                self._left += n
                self._change.notify()
