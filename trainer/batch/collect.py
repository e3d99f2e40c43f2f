"""The end of a job: whether all is there, the list of what could not be read, and the sums."""

import csv
import dataclasses
import io
import json
import shutil
from typing import Any

from trainer.batch.job import SHARDS, TABLE, UNPACKED, WORK, Job, opened
from trainer.batch.work import ShardManifest
from trainer.errors import FailedError, check
from trainer.io import local_path
from trainer.machine import Tracker
from trainer.places import BucketPlace, Stored
from trainer.texts import some

UNREAD, SUMMARY = "unread.csv", "summary.json"
"""Files at the end: the images without a result, and the sums."""


@dataclasses.dataclass(frozen=True)
class Done:
    """What became of a job."""

    images: int
    unread: int
    """Images without a result, which UNREAD lists."""
    processor_seconds: float
    """Time of all processes."""
    runtimes: list[str]
    """What has computed the maps. Several if machines differ, and then the last bits of the maps do."""

    def __str__(self) -> str:
        each = self.processor_seconds / max(1, self.images)
        left = f", {self.unread:,} of them unread ({UNREAD})" if self.unread else ""
        return f"{self.images:,} images{left}, {each:.2f} s each ({', '.join(self.runtimes)})"


def collect_job(output: str) -> Done:
    """End a job: write UNREAD and SUMMARY.

    Raises:
        UserError: a shard is not done. The message names it.
    """
    target = opened(output)
    job = Job.load(target)
    manifests = []
    with Tracker("collect", job.shards, "shards") as tracker:
        for shard in range(job.shards):
            manifests.append(ShardManifest.load(target, shard))
            tracker.advance()
    open_shards = [str(shard + 1) for shard, manifest in enumerate(manifests) if not manifest.done]
    check(
        not open_shards,
        f"{len(open_shards)} of {job.shards} shards of {output} are not done ({some(open_shards)}). The same "
        "command goes on",
        FailedError,
    )
    images = sum(manifest.images for manifest in manifests)
    check(images == job.images, f"{output} has {images:,} images, and its job {job.images:,}", FailedError)
    unread = {key: reason for manifest in manifests for key, reason in manifest.unread.items()}
    _write_unread(target, unread)
    seconds = round(sum(manifest.seconds for manifest in manifests), 1)
    runtimes = sorted({runtime for manifest in manifests for runtime in manifest.runtimes})
    done = Done(images, len(unread), seconds, runtimes)
    content = json.dumps({**dataclasses.asdict(job), **dataclasses.asdict(done)}, indent=2).encode()
    target.write(SUMMARY, lambda file: file.write(content))
    _remove_temporary(target)
    return done


def _write_unread(output: Stored, unread: dict[str, str]) -> None:
    text = io.StringIO()
    writer: Any = csv.writer(text)
    writer.writerow(("key", "reason"))
    writer.writerows(unread.items())
    output.write(UNREAD, lambda file: file.write(text.getvalue().encode()))


def _remove_temporary(output: Stored) -> None:
    """Remove the images of an archive that `plan_job` has unpacked, and what killed tasks have left.

    A task on another machine cannot remove that: it cannot tell whether the one before it still runs.
    """
    if isinstance(output, BucketPlace):
        for folder in map(output.join, (UNPACKED, WORK)):
            for name, _ in folder.each_object():
                folder.remove(name.removeprefix(f"{folder.object_path}/"))
        return
    for name in (UNPACKED, WORK):
        shutil.rmtree(local_path(output.path(name)), ignore_errors=True)
    for written in (output, output.join(SHARDS), output.join(TABLE)):
        written.remove_leftovers()
