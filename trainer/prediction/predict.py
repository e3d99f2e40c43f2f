"""Predicts the saliency maps of many images, and names and writes the files that are made of each.

Each image is read, predicted and written in one thread, so that some are read or written while the network
predicts others. The memory does not grow with the number of images: how many threads there are, and how many
pixels are decoded at once, each has a limit.
"""

import dataclasses
import os
import pathlib
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from PIL import Image

from trainer.errors import PlaceError, UserError, check
from trainer.io import replacing, write_array
from trainer.machine import map_ahead, n_cpus, open_pool
from trainer.pictures import Pixels
from trainer.prediction.heat import blend, draw_grey
from trainer.prediction.inputs import Input, protect
from trainer.prediction.kinds import kind_of
from trainer.prediction.regions import FOCUS_AREA, Measure, Region, focus, heat_of, measure_regions, peak_of
from trainer.prediction.saliency_map import Map, screens_of
from trainer.prediction.settings import PREDICT_DEFAULTS, PREDICT_FORMATS, PredictConfig
from trainer.texts import printable, some

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor, Prepared

MAX_LEVEL = {"png": 255, "png16": 65535}
"""Format with grey levels -> largest level."""
PIXELS_AT_ONCE = 48 * 10**6
"""Most pixels that are decoded, restored or written at the same time. A larger image is processed alone.

Each pixel takes about 15 bytes, in a TIFF of floats 24.
"""
Paths = dict[str, pathlib.Path]
"""Format -> the file to write."""


@dataclasses.dataclass(frozen=True)
class ImageResult:
    """The result of one image."""

    SCHEMA: ClassVar[int] = 2
    """Version of what `as_json` returns. It grows when a value changes its meaning or goes."""
    input: Input
    error: str = ""
    """Reason why there is no map. Empty for a success."""
    size: tuple[int, int] | None = None
    """(h, w) of the image, pixels. None if it cannot be read."""
    page: float = 0.0
    """How much the image was seen as a page, 0..1."""
    seen_as: str = ""
    """What `Predictor.seen_as` says of it."""
    screens: int = 1
    """The number of screens on which the image was seen. It is 1 for all but long pages."""
    written: Paths = dataclasses.field(default_factory=dict)
    measures: Sequence[Measure] = ()
    peak_at: tuple[int, int] = (0, 0)
    """(y, x) of the map's peak (`regions.peak_of`), pixels. On a long page, it is the first screen's."""
    focus: float = 0.0
    """Share of the attention on the tenth of the pixels that get most of it (`regions.focus`)."""
    heat: Sequence[float] = ()
    """Where the attention is, in short (`regions.heat_of`). Empty if nobody asked for it."""

    def __str__(self) -> str:
        """Where the attention is: the place of the peak, and `focus`."""
        (y, x), screens = self.peak_at, self.screens
        cut, whole = (f", seen on {screens} screens", "each screen") if screens > 1 else ("", "the image")
        return (
            f"peak at x {x}, y {y}{cut}, and {self.focus:.0%} of the attention is on {FOCUS_AREA:.0%} of {whole}"
        )

    def as_json(self) -> dict[str, Any]:
        """Convert the result to values for JSON."""
        if self.error:
            return {"image": self.input.name, "error": self.error}
        assert self.size is not None
        return {
            "image": self.input.name,
            "height": self.size[0],
            "width": self.size[1],
            "screens": self.screens,
            "kind": kind_of(self.page),
            "page": self.page,
            "seen_as": self.seen_as,
            "peak_at": self.peak_at,
            "focus": self.focus,
            "results": {name: str(path) for name, path in self.written.items()},
            "regions": [measured.as_json() for measured in self.measures],
        }


class Maps:
    """The maps of some images, and the files that are made of them."""

    def __init__(
        self,
        inputs: Sequence[Input],
        output_dir: str | os.PathLike[str],
        formats: Sequence[str],
        config: PredictConfig = PREDICT_DEFAULTS,
        regions: Sequence[Region] = (),
    ) -> None:
        """Name the files, as `name_results` does.

        Args:
            inputs: the images.
            output_dir: the folder of the results. Empty to write them beside the images.
            formats: of PREDICT_FORMATS.
            config: how to read and draw.
            regions: to measure in each image.

        Raises:
            UserError: as `name_results`.
        """
        self.inputs = inputs
        self._paths = name_results(inputs, output_dir, formats)
        self._config, self._regions = config, regions

    def predict(self, predictor: "Predictor") -> Generator[ImageResult, None, None]:
        """Write and measure the maps. Yields and raises what `predict_images` does."""
        return predict_images(predictor, self.inputs, self._paths, self._config, self._regions)


def predict_images(
    predictor: "Predictor",
    inputs: Sequence[Input],
    paths: Sequence[Paths],
    config: PredictConfig = PREDICT_DEFAULTS,
    regions: Sequence[Region] = (),
    with_heat: bool = False,
) -> Generator[ImageResult, None, None]:
    """Write the maps of images.

    Args:
        predictor: the network.
        inputs: the images.
        paths: the files to write for each image, by format.
        config: how to read and draw. `paths` says what to write.
        regions: to measure in each image.
        with_heat: whether the results have `ImageResult.heat`.

    Yields:
        The result of each image, in order. The result of an image that cannot be read has the reason.

    Raises:
        UserError: no more results can be written, or a prediction is not finite.
    """
    worker = _Worker(predictor, config, regions, with_heat)
    # As many as the network can use, and as many again to read ahead of it and to write behind it.
    n_threads = predictor.parallel + n_cpus()
    with open_pool(n_threads) as pool:
        yield from map_ahead(pool, worker.predict, zip(inputs, paths, strict=True), 4 * n_threads)


class _Budget:
    """Limits the pixels that are in progress at once. One image may exceed the limit alone."""

    def __init__(self, pixels: int) -> None:
        self._free, self._users = pixels, 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, pixels: int) -> Iterator[None]:
        """Wait until this many pixels are free, and hold them during the context."""
        with self._changed:
            self._changed.wait_for(lambda: pixels <= self._free or not self._users)
            self._free, self._users = self._free - pixels, self._users + 1
        try:
            yield
        finally:
            with self._changed:
                self._free, self._users = self._free + pixels, self._users - 1
                self._changed.notify_all()


class _Worker:
    """Reads an image, predicts it, and writes its results, in any thread.

    A thread waits for pixels only while it holds none.
    """

    def __init__(
        self, predictor: "Predictor", config: PredictConfig, regions: Sequence[Region], with_heat: bool
    ) -> None:
        self._predictor, self._config, self._regions = predictor, config, regions
        self._with_heat = with_heat
        self._budget = _Budget(PIXELS_AT_ONCE)

    def predict(self, job: tuple[Input, Paths]) -> ImageResult:
        """Predict an image, measure its map, and write the results.

        A failure is returned as an `ImageResult` with its message, so that the other images go on.
        """
        image, paths = job
        try:
            prepared = self._prepare(image)
        except UserError as error:
            return ImageResult(image, str(error))
        return self._finish(image, paths, prepared, self._predictor.forward(prepared))

    def _prepare(self, image: Input) -> "Prepared":
        """Bring an image into the form of the network's inputs. Raises `UserError` if it cannot be read."""
        picture = image.open(self._config.most_pixels)
        for region in self._regions:
            region.box(picture.size, image.label)
        with self._budget.reserve(picture.size[0] * picture.size[1]):
            return self._predictor.prepare(picture.decode(), kind=self._config.kind)

    def _finish(
        self, image: Input, paths: Paths, prepared: "Prepared", predictions: Mapping[str, Map]
    ) -> ImageResult:
        """Restore the map to the image's size, measure it, and write the results."""
        height, width = prepared.size
        with self._budget.reserve(height * width):
            restored = self._predictor.restore(prepared, predictions)
            # Decoded a second time, so that its pixels need not stay in memory until the prediction.
            is_drawn = "overlay" in paths
            try:
                pixels = image.open(self._config.most_pixels).decode() if is_drawn else None
            except UserError as error:
                return ImageResult(image, str(error))
            measures = measure_regions(restored, self._regions)
            screens = screens_of(restored)
            peak_at, focused = peak_of(screens[0].map), focus(restored)
            heat = heat_of(restored) if self._with_heat else ()
            for name, path in paths.items():
                try:
                    write_result(path, name, restored, pixels, self._config)
                except PlaceError as error:  # such as a name that becomes too long by what is added to it
                    return ImageResult(image, str(error))
        seen = prepared.page, self._predictor.seen_as(prepared.page), len(screens)
        return ImageResult(image, "", (height, width), *seen, paths, measures, peak_at, focused, heat)


def name_results(
    inputs: Sequence[Input], output_dir: str | os.PathLike[str], formats: Sequence[str]
) -> list[Paths]:
    """Name the results of each image.

    The results keep the layout of the input folders below `output_dir`. If it is empty, they lie next to the
    images, or where `Input.beside` says. Each is named after its image without the suffix, or with it if several
    images would share the name. An input that is not an image has no results.

    Example:
        The format png of `a.jpg` is `maps/a.png`. If there is an `a.gif` too, it is `maps/a.jpg.png`.

    Raises:
        UserError: two results would be the same file, one would overwrite an image, or an image on Cloud Storage
            has no folder for its results.
    """
    if formats and not output_dir:
        for image in inputs:
            check(
                image.place.is_local, f"{image.label} is on Cloud Storage: name a local --output-dir", PlaceError
            )
    endings = {name: each.ending if output_dir else each.beside for name, each in PREDICT_FORMATS.items()}
    names = [image.key if output_dir or not image.key else image.beside or image.name for image in inputs]
    stems = [str(pathlib.PurePosixPath(name).with_suffix("")) if name else "" for name in names]
    counts = Counter(stems)
    unique = [name if counts[stem] > 1 else stem for name, stem in zip(names, stems, strict=True)]
    paths = [{name: pathlib.Path(output_dir, stem + endings[name]) for name in formats if stem} for stem in unique]
    written = [path for files in paths for path in files.values()]
    repeated = [path for path, count in Counter(written).items() if count > 1]
    check(
        not repeated,
        f"several images would write {some([printable(str(path)) for path in repeated])}: give the folder that "
        "contains all of them, or another --output-dir for each",
        PlaceError,
    )
    protect(inputs, written)
    return paths


def write_result(
    path: pathlib.Path, format: str, map: Map, image: Pixels | None, config: PredictConfig = PREDICT_DEFAULTS
) -> None:
    """Write a map (h, w), 0..1, in one of PREDICT_FORMATS. An overlay needs the image (h, w, 3)."""
    with replacing(path, flushed=False) as partial:
        if format == "npy":
            write_array(partial, map)
        elif format in MAX_LEVEL:
            draw_grey(map, MAX_LEVEL[format]).save(partial, "PNG", compress_level=1)
        else:
            assert image is not None
            Image.fromarray(blend(image, map, config.opacity)).save(partial, "PNG", compress_level=2)
