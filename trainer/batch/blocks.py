"""A process that predicts blocks of a shard: `python -m trainer.batch.blocks OUTPUT SHARD CPUS`.

It reads the number of a block from each line of its standard input, and writes a line of JSON for it. It ends with
its input, and with its parent.
"""

import json
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from trainer.batch.job import Job, digest_of, opened, read_shard, write_table
from trainer.batch.work import ONE_MORE, block_name
from trainer.errors import ConflictError, ContentError, PlaceError, UserError, check
from trainer.io import local_path, temporary_folder, temporary_folder_beside
from trainer.machine import end_with_parent
from trainer.models import choose_model
from trainer.network import ModelFolder
from trainer.places import BucketPlace, Connection, Stored
from trainer.prediction import ImageResult, Input, Predictor, predict_images

if TYPE_CHECKING:
    import polars

UPLOADS = 16
"""Files that are sent at a time."""


class Blocks:
    """Predicts blocks of one shard."""

    def __init__(self, output: str, shard: int, cpus: int) -> None:
        self._output, self._shard = opened(output), shard
        self._job = Job.load(self._output)
        self._images = read_shard(self._output, shard)
        self._predictor = Predictor(self._model(), self._job.precision, cpus)
        self._connection = Connection()

    def _model(self) -> pathlib.Path:
        """The folder of the job's model. Raises `ConflictError` if its name means another one now."""
        folder, name = choose_model(self._job.model).folder, self._job.model
        check(
            digest_of(ModelFolder(folder)) == self._job.model_digest,
            f"{name} is no longer the model with which {self._output} was begun. Name its version, or give "
            "another folder for the results",
            ConflictError,
        )
        return folder

    def predict(self, block: int, tell: Callable[[], None]) -> dict[str, Any]:
        """Write the maps and the rows of a block. Returns the fields of a `BlockResult`.

        `tell` is called after each image.
        """
        begin = time.perf_counter()
        n = self._job.block_images
        listed = self._images[block * n : (block + 1) * n]
        inputs = [self._input(*image) for image in listed]
        config, regions = self._job.config, self._job.parsed_regions
        # On the disk of the results, if they are of this machine.
        beside = self._output.path("x")
        scratch = temporary_folder_beside(beside) if self._output.is_local else temporary_folder()
        with scratch as folder, ThreadPoolExecutor(UPLOADS) as senders:
            paths = [
                {name: folder / f"{index}{ending}" for name, ending in config.endings.items()}
                for index in range(len(inputs))
            ]
            predicted = predict_images(self._predictor, inputs, paths, config, regions, with_heat=True)
            sent: list[Future[ImageResult]] = []
            for (key, *_), result in zip(listed, predicted, strict=True):
                sent.append(senders.submit(self._publish, key, result))
                tell()
            results = [each.result() for each in sent]
        if config.formats and not isinstance(self._output, BucketPlace):
            os.sync()  # the maps, before the rows say that they are there
        rows = [_row(key, result) for (key, *_), result in zip(listed, results, strict=True)]
        write_table(self._output, block_name(self._shard, block), _table(rows))
        unread = {key: result.error for (key, *_), result in zip(listed, results, strict=True) if result.error}
        seconds = round(time.perf_counter() - begin, 2)
        return {"block": block, "unread": unread, "seconds": seconds, "runtime": self._predictor.runtime}

    def _input(self, key: str, address: str, problem: str) -> Input:
        """An image of the shard. One with a problem raises it when it is read."""
        if not problem:
            return Input.at(address, key, self._connection)

        def read(most_bytes: int) -> bytes:
            raise ContentError(problem)

        return Input(address, key, read)

    def _publish(self, key: str, result: ImageResult) -> ImageResult:
        """Bring the maps of an image to their place: `png/a/x.jpg.png` for the key `a/x.jpg`.

        The whole key, and a folder for each format, so that no two results have one name.
        """
        try:
            for name, path in () if result.error else result.written.items():
                _move(path, self._output, f"{name}/{key}{path.suffix}")
        except PlaceError as error:
            return ImageResult(result.input, str(error))
        return result


def _move(path: pathlib.Path, output: Stored, name: str) -> None:
    if isinstance(output, BucketPlace):
        output.upload(name, path)
        return
    target = local_path(output.path(name))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from None


# === Rows ===


def _row(key: str, result: ImageResult) -> dict[str, Any]:
    """An image as a row: what `predict --json` says of it, and `heat`."""
    if result.error:
        return {"key": key, "error": result.error}
    assert result.size is not None
    said = result.as_json()
    names = ("height", "width", "screens", "kind", "page", "focus")
    regions = [
        {
            **{name: each[name] for name in ("name", "share", "area", "ratio", "peak", "rank", "screen")},
            **_at(each),
        }
        for each in said["regions"]
    ]
    return {
        "key": key,
        **{name: said[name] for name in names},
        **_at(said),
        "heat": result.heat,
        "regions": regions,
    }


def _at(said: dict[str, Any]) -> dict[str, int]:
    y, x = said["peak_at"]
    return {"peak_x": x, "peak_y": y}


def _table(rows: Sequence[dict[str, Any]]) -> "polars.DataFrame":
    """The table of some rows. An image without a result has its reason alone."""
    import polars as pl

    region = {
        **{"name": pl.String, "share": pl.Float32, "area": pl.Float32, "ratio": pl.Float32, "peak": pl.Float32},
        **{"rank": pl.Int32, "screen": pl.Int32, "peak_x": pl.Int32, "peak_y": pl.Int32},
    }
    schema: dict[str, Any] = {
        **{"key": pl.String, "error": pl.String, "height": pl.Int32, "width": pl.Int32, "screens": pl.Int32},
        **{"kind": pl.String, "page": pl.Float32, "focus": pl.Float32, "peak_x": pl.Int32, "peak_y": pl.Int32},
        "heat": pl.List(pl.Float32),
        "regions": pl.List(pl.Struct(region)),
    }
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema)


# === The process ===


def main(output: str, shard: str, cpus: str) -> None:
    """Answer each line of the standard input."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    answers, sys.stdout = sys.stdout, sys.stderr  # what else is printed is for people
    try:
        blocks = Blocks(output, int(shard), int(cpus))
        for line in sys.stdin:
            result = blocks.predict(int(line), lambda: print(end=ONE_MORE, file=answers, flush=True))
            print(json.dumps(result), file=answers, flush=True)
    except UserError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
