"""The work on one shard: its images in blocks, by several processes, and one manifest of what is done.

A block is a few hundred images. Its maps are complete before its part of the table is written, and the part is
complete before the manifest names it. So a job that is killed repeats the blocks that were being made, and each
result is written again with the same content.
"""

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from trainer.batch.job import (
    SHARDS,
    TABLE,
    WORK,
    Job,
    opened,
    read_shard,
    read_table,
    shard_name,
    write_table,
)
from trainer.batch.settings import BatchConfig
from trainer.errors import ContentError, FailedError, check, reported
from trainer.io import parse_json
from trainer.machine import Tracker, n_cpus
from trainer.places import Stored
from trainer.texts import some

CPUS_OF_PROCESS = 4
"""Processors of one process. More would wait for Python, and need more memory than 2 GB."""
FEW_BAD = 10
"""Unreadable images that never stop a shard."""
REMEDY = "remove it, and start the job again"


@dataclasses.dataclass
class ShardManifest:
    """What is done of a shard."""

    images: int
    done: bool = False
    """Whether the shard has its table, and all maps."""
    blocks: dict[str, int] = dataclasses.field(default_factory=dict)
    """Block -> how many of its images have no result."""
    unread: dict[str, str] = dataclasses.field(default_factory=dict)
    """Key of an image that has no result -> why."""
    seconds: float = 0.0
    """Time that the blocks took, summed over the processes."""
    runtimes: list[str] = dataclasses.field(default_factory=list)
    """What has computed the maps, such as `OpenVINO 2026.4.1, bfloat16`."""

    @classmethod
    def load(cls, output: Stored, shard: int, images: int = 0) -> "ShardManifest":
        """The manifest of a shard. An empty one if nothing is done."""
        name = manifest_name(shard)
        content = output.content(name)
        if content is None:
            return cls(images)
        found: ShardManifest = parse_json(content, output.path(name), REMEDY, cls)
        return found

    def write(self, output: Stored, shard: int) -> None:
        content = json.dumps(dataclasses.asdict(self)).encode()
        output.write(manifest_name(shard), lambda file: file.write(content))

    def check_bad(self, max_bad_share: float) -> None:
        """Raise `ContentError` if too many images of the shard have no result."""
        most = max(FEW_BAD, max_bad_share * self.images)
        first = next(iter(self.unread.values()), "")
        check(
            len(self.unread) <= most,
            f"{len(self.unread):,} of {self.images:,} images of a shard cannot be read, and max_bad_share is "
            f"{max_bad_share:g}: {some(list(self.unread))}. The first: {first}. Raise max_bad_share to go on "
            "without them",
            ContentError,
        )


def manifest_name(shard: int) -> str:
    """Where the manifest of a shard is, in the folder of the results."""
    return f"{SHARDS}/{shard_name(shard)}.json"


def block_name(shard: int, block: int) -> str:
    """Where the rows of a block are until its shard is done."""
    return f"{WORK}/{shard_name(shard)}/{block:05}.parquet"


def predict_shard(output: str, shard: int, config: BatchConfig | None = None, processes: int = 0) -> ShardManifest:
    """Predict what is left of a shard. Show the progress.

    Args:
        output: the folder of the results, or `gs://`, in which `plan_job` has planned the job.
        shard: its number, from 0.
        config: how many images may be unreadable.
        processes: that work at a time. 0 for one for each CPUS_OF_PROCESS processors.

    Raises:
        UserError: too many images cannot be read, or nothing more can be written. What is done stays.
    """
    config, target = config or BatchConfig(), opened(output)
    job = Job.load(target)
    n_images = len(read_shard(target, shard))
    manifest = ShardManifest.load(target, shard, n_images)
    if manifest.done:
        return manifest
    n_blocks = -(-n_images // job.block_images)
    left = [block for block in range(n_blocks) if str(block) not in manifest.blocks]
    counts = [min(job.block_images, n_images - block * job.block_images) for block in left]
    title = f"shard {shard + 1} of {job.shards}"
    with Tracker(title, n_images, "images", done=n_images - sum(counts)) as tracker:
        for result in _by_processes(output, shard, left, processes, tracker.advance):
            manifest.blocks[str(result.block)] = len(result.unread)
            manifest.unread |= result.unread
            manifest.seconds += result.seconds
            manifest.runtimes = sorted({*manifest.runtimes, result.runtime})
            manifest.write(target, shard)
            manifest.check_bad(config.max_bad_share)
    import polars

    names = [block_name(shard, block) for block in range(n_blocks)]
    write_table(
        target, f"{TABLE}/{shard_name(shard)}.parquet", polars.concat([read_table(target, name) for name in names])
    )
    manifest.done = True
    manifest.write(target, shard)
    for name in names:
        target.remove(name)
    return manifest


def predict_task(output: str, task: int, config: BatchConfig) -> None:
    """Predict what is left of the shards of a task of a service. Raises `UserError` as `predict_shard`."""
    for shard in Job.load(opened(output)).shards_of(task):
        predict_shard(output, shard, config)


# === Processes ===


KEEPING_MEMORY = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**32))
"""Variables of glibc: memory of large arrays is used again. To return it after each saves nothing, and an image
takes a fifth longer beside the network (research/log.md, "Ten million maps")."""
ONE_MORE = "\n"
"""What a process answers after each image, before the result of the block."""


class BlockResult(NamedTuple):
    """What became of a block."""

    block: int
    unread: dict[str, str]
    seconds: float
    runtime: str


def _by_processes(
    output: str, shard: int, blocks: Sequence[int], processes: int, tell: Callable[[], None]
) -> Iterator[BlockResult]:
    """The results of blocks, as they end. Each process takes the next one. All end with this one.

    `tell` is called after each image.
    """
    cpus = n_cpus()
    n_processes = min(processes or max(1, cpus // CPUS_OF_PROCESS), len(blocks))
    if not n_processes:
        return
    idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
    lock = threading.Lock()

    def tell_alone() -> None:
        with lock:
            tell()

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(n_processes) as threads:
        for _ in range(n_processes):
            idle.put(stack.enter_context(_Process(output, shard, max(1, cpus // n_processes))))

        def work(block: int) -> BlockResult:
            process = idle.get()
            try:
                return process.predict(block, tell_alone)
            finally:
                idle.put(process)

        futures = [threads.submit(work, block) for block in blocks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            stack.close()  # before the threads are waited for: it ends what they wait for


class _Process:
    """A process that predicts blocks, one after another."""

    def __init__(self, output: str, shard: int, cpus: int) -> None:
        command = (sys.executable, "-m", "trainer.batch.blocks", output, str(shard), str(cpus))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**KEEPING_MEMORY, **os.environ},
        )

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # what was not sent
                stream.close()
        self._process.wait()

    def predict(self, block: int, tell: Callable[[], None]) -> BlockResult:
        """The result of a block. Raises `UserError` as the process does, or if it has ended."""
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None
        assert answers is not None
        try:
            asks.write(f"{block}\n")
            asks.flush()
            while (line := answers.readline()) == ONE_MORE:
                tell()
        except OSError:
            line = ""
        if not line:
            raise FailedError(
                f"a process that predicts images has ended with status {self._process.wait()}, perhaps because "
                "this machine has too little memory. The same command goes on where it was"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise FailedError(answer["error"])
        return BlockResult(**answer)


def main(arguments: Sequence[str]) -> None:
    """Predict as a task of a service: `python -m trainer.batch.work OUTPUT TASK MAX_BAD_SHARE`."""
    output, task, max_bad_share = arguments
    with reported():
        predict_task(output, int(task), BatchConfig(max_bad_share=float(max_bad_share)))


if __name__ == "__main__":
    main(sys.argv[1:])
