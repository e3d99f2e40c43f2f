"""Batch predictions in processes of their own, killed at random moments, and what must be there in the end."""

import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
from PIL import Image

from tests.golden.inputs import image

BLOCK = 5


def write_photos(folder: pathlib.Path, count: int) -> list[str]:
    """Write pictures of several sizes into two folders, with equal names. Returns their keys, sorted."""
    keys = []
    for index in range(count):
        key = f"{'ab'[index % 2]}/{index // 2:03}.png"
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        height, width = ((40, 100), (120, 50), (64, 80))[index % 3]
        Image.fromarray(image(index, 1, height, width)[0]).save(folder / key)
        keys.append(key)
    return sorted(keys)


def start(source: pathlib.Path, output: pathlib.Path, model: pathlib.Path, *flags: str) -> subprocess.Popen[bytes]:
    """Start the command in blocks of BLOCK images, with two processes."""
    begin = (
        "import sys; from trainer.batch import job; job.BLOCK_IMAGES = int(sys.argv.pop(1)); "
        "from pipeline.__main__ import main; from trainer.errors import reported\n"
        "with reported(): sys.exit(main(sys.argv[1:]))"
    )
    words = ["predict", str(source), str(output), "--model", str(model), "--format", "png", "--processes", "2"]
    command = [sys.executable, "-c", begin, str(BLOCK), *words, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def predict_killed(
    source: pathlib.Path, output: pathlib.Path, model: pathlib.Path, kills: int, chances: random.Random
) -> int:
    """Run the command until it succeeds. It is killed at so many random moments. Returns the kills that met it."""
    killed, longest = 0, 8.0
    for _ in range(kills):
        process = start(source, output, model, "--shard-gigabytes", "0.0001")
        begin = time.monotonic()
        try:
            process.wait(chances.uniform(0.2, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        said = process.communicate()[0].decode()
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, said
            longest = max(1.0, 0.9 * (time.monotonic() - begin))
    last = start(source, output, model, "--shard-gigabytes", "0.0001")
    said = last.communicate()[0].decode()
    assert last.returncode == 0, said
    return killed


def assert_whole(output: pathlib.Path, keys: list[str], unread: tuple[str, ...] = ()) -> pl.DataFrame:
    """Assert that each image has one row and one whole map, and that nothing else is left. Returns the table."""
    table = pl.read_parquet(output / "table" / "*.parquet")
    assert sorted(table["key"]) == keys
    maps = sorted(
        path.relative_to(output / "png").as_posix() for path in (output / "png").rglob("*") if path.is_file()
    )
    assert maps == [f"{key}.png" for key in keys if key not in unread]
    for name in maps:
        row = table.row(by_predicate=pl.col("key") == name.removesuffix(".png"), named=True)
        assert np.asarray(Image.open(output / "png" / name)).shape == (row["height"], row["width"])
    assert not [path for path in output.rglob("*") if path.name.startswith(".")]
    assert not [path for path in (output / "work").rglob("*") if path.is_file()]
    return table
