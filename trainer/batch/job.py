"""A job: what is predicted, how, and into how many shards its source is cut.

Example of the folder of its results, for `--format png`:

    job.json                   the job. It is written when the listing is whole
    shards/00000.parquet       the images of the first shard, by their keys
    shards/00000.json          what is done of it, and which of its images could not be read
    png/a/x.jpg.png            the map of the image with the key a/x.jpg
    table/00000.parquet        a row for each image of the shard
    unread.csv, summary.json   at the end
"""

import dataclasses
import datetime
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from trainer.batch.listing import Listed, list_images
from trainer.batch.settings import MOST_TASKS, BatchConfig
from trainer.batch.shards import pieces
from trainer.errors import ConflictError, NotFoundError, check
from trainer.io import parse_json, temporary_folder
from trainer.machine import Tracker
from trainer.models import choose_model
from trainer.network import ModelFolder
from trainer.pictures import SUFFIXES
from trainer.places import ARCHIVES, BucketPlace, Connection, Stored, open_source, stored_at
from trainer.prediction import PredictConfig, Region, parse_regions
from trainer.texts import printable

if TYPE_CHECKING:
    import polars

JOB, SHARDS, TABLE, WORK, UNPACKED = "job.json", "shards", "table", "work", "unpacked"
"""Names in the folder of the results."""
MOST_IMAGES = 100_000
"""Images of a shard, whatever their size."""
BLOCK_IMAGES = 200
"""What is repeated after a kill, for each process."""
REMEDY = "name another folder for the results"


@dataclasses.dataclass(frozen=True)
class Job:
    """What is predicted, and how."""

    SCHEMA: ClassVar[int] = 1
    source: str
    model: str
    """The model's name or folder. The empty name is the default, which is settled when the job is planned."""
    model_digest: str
    """SHA-256 of its weights and its settings, hex."""
    settings: dict[str, Any]
    """Of `PredictConfig`."""
    regions: list[str]
    """Measured in each image, as `parse_regions` takes them."""
    precision: str
    """As in `BatchConfig`."""
    images: int = 0
    bytes: int = 0
    shards: int = 0
    block_images: int = BLOCK_IMAGES
    """Images of a block (`trainer.batch.work`)."""
    listed: str = ""
    """When the source was listed, ISO 8601."""
    schema: int = SCHEMA

    @classmethod
    def load(cls, output: Stored) -> Self:
        """The job of a folder of results. Raises `UserError` if it has none."""
        content = output.content(JOB)
        check(
            content is not None, f"{output} has no {JOB}: its listing has not ended. Start it again", NotFoundError
        )
        assert content is not None
        job: Self = parse_json(content, output.path(JOB), REMEDY, cls)
        return job

    @property
    def config(self) -> PredictConfig:
        """How images are read, and what is written of each."""
        return PredictConfig(**self.settings)

    @property
    def parsed_regions(self) -> list[Region]:
        """What is measured in each image."""
        return parse_regions(self.regions)

    @property
    def tasks(self) -> range:
        """The tasks of a service that predict the job together."""
        return range(min(self.shards, MOST_TASKS))

    def shards_of(self, task: int) -> range:
        """The shards that a task predicts, one after another. Example: 0, 250 and 500 of 600 for task 0."""
        return range(task, self.shards, MOST_TASKS)

    @property
    def asked(self) -> dict[str, Any]:
        """What makes it this job: without what the listing has found."""
        names = ("source", "model_digest", "settings", "regions", "precision", "schema")
        return {name: getattr(self, name) for name in names}


def digest_of(folder: ModelFolder) -> str:
    """SHA-256 of a model's weights and settings, hex."""
    digest = hashlib.sha256()
    for path in (folder.weights, folder.config_file):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def plan_job(
    source: str,
    output: str,
    model: str = "",
    predict: PredictConfig | None = None,
    regions: Sequence[str] = (),
    config: BatchConfig | None = None,
) -> Job:
    """List the images of a source, and write the shards of a job. A job that was planned before is returned.

    Args:
        source: as in `trainer.batch.listing.list_images`, or an archive, which is unpacked into the folder.
        output: the folder of the results, or `gs://`.
        model: as in `trainer.models.find.choose_model`.
        predict: what is written of each image. No format writes the table alone.
        regions: to measure in each image.
        config: the size of a shard.

    Raises:
        UserError: the source has no images, the model is unknown, the folder has another job, or it cannot be
            written.
    """
    predict, config = predict or PredictConfig(), config or BatchConfig()
    parse_regions(regions)
    target = stored_at(output)
    answering = choose_model(model).announced()
    answering.tell()
    kept = model or (answering.name if not answering.version else str(answering.folder.absolute()))
    digest = digest_of(ModelFolder(answering.folder))
    asked = dataclasses.asdict(predict), list(regions), config.precision
    job = Job(source, kept, digest, *asked, block_images=BLOCK_IMAGES)
    if target.content(JOB) is not None:
        return _same(Job.load(target), job, target)
    target.check_writable()
    n_images = n_bytes = n_shards = 0
    with Tracker(f"list {printable(source)}", None, "images") as tracker:
        for piece in pieces(_listed(source, target), 10**9 * config.shard_gigabytes, MOST_IMAGES):
            write_shard(target, n_shards, piece)
            n_shards, n_images = n_shards + 1, n_images + len(piece)
            n_bytes += sum(image.size_bytes for image in piece)
            tracker.advance(len(piece))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    job = dataclasses.replace(job, images=n_images, bytes=n_bytes, shards=n_shards, listed=now)
    content = json.dumps(dataclasses.asdict(job), indent=2).encode()
    target.write(JOB, lambda file: file.write(content))
    return job


def _same(before: Job, asked: Job, output: Stored) -> Job:
    """The job that was planned before. Raises `ConflictError` if something else is asked for now."""
    differing = [name for name, value in asked.asked.items() if before.asked[name] != value]
    shown = ", ".join(f"{name} {before.asked[name]!r} there, {asked.asked[name]!r} now" for name in differing)
    check(
        not differing,
        f"{output} has the results of another job ({shown}). Ask for the same again to go on with it, or {REMEDY}",
        ConflictError,
    )
    print(f"{output}: {before.images:,} images, listed {before.listed}. Going on", flush=True)
    return before


def _listed(source: str, output: Stored) -> Iterator[Listed]:
    """The images of a source, also of an archive."""
    if not source.lower().endswith(ARCHIVES):
        return list_images(source)
    return list_images(_unpack(source, output))


def _unpack(source: str, output: Stored) -> str:
    """Unpack the images of an archive into the folder of the results, which `collect` removes. Returns where."""
    place = stored_at(source)
    stem = place.name[: -len(next(each for each in ARCHIVES if place.name.lower().endswith(each)))]
    with temporary_folder() as scratch, open_source(place, place.objects(), scratch) as members:
        found = [member for member in members if member.path.lower().endswith(SUFFIXES)]
        with Tracker("unpack images", len(found), "images") as tracker:
            for member in found:
                content = member.read()
                name = member.path.removeprefix(f"{stem}/")
                output.write(f"{UNPACKED}/{name}", lambda file, content=content: file.write(content))  # type: ignore[misc]
                tracker.advance()
    check(bool(found), f"{printable(source)} has no images", NotFoundError)
    return output.path(UNPACKED)


# === The images of a shard ===


def shard_name(shard: int) -> str:
    """The name of a shard in the folder of the results, such as `00003`."""
    return f"{shard:05}"


def write_shard(output: Stored, shard: int, images: Iterable[Listed]) -> None:
    """Write the list of a shard's images."""
    import polars

    rows = list(images)
    columns = {name: [getattr(each, name) for each in rows] for name in ("key", "address", "problem")}
    write_table(output, f"{SHARDS}/{shard_name(shard)}.parquet", polars.DataFrame(columns))


def read_shard(output: Stored, shard: int) -> list[tuple[str, str, str]]:
    """The key, the address and the problem of a shard's images, as in `Listed`."""
    return read_table(output, f"{SHARDS}/{shard_name(shard)}.parquet").rows()


def write_table(output: Stored, name: str, table: "polars.DataFrame") -> None:
    """Write a Parquet file, completely or not at all."""
    output.write(name, lambda file: table.write_parquet(file))


def read_table(output: Stored, name: str) -> "polars.DataFrame":
    """Read a Parquet file. Raises `UserError` if it is missing."""
    import polars

    content = output.content(name)
    check(content is not None, f"{output.path(name)} is missing. {REMEDY.capitalize()}", NotFoundError)
    assert content is not None
    return polars.read_parquet(io.BytesIO(content))


def opened(address: str) -> Stored:
    """The folder of a job's results. On Cloud Storage, its connection is kept."""
    place = stored_at(address)
    return place.connected(Connection()) if isinstance(place, BucketPlace) else place
