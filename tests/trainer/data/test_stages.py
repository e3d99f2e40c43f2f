"""A dataset that several processes prepare is the dataset of one process, byte for byte."""

import dataclasses
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests import patches
from tests.gcs import upload
from tests.refusals import refused
from tests.small_sources import (
    density_map,
    files,
    point_map,
    save,
    stimulus,
    write_tar,
    write_tree,
    write_zip,
    zipped,
)
from tests.trainer.data.test_copies import picture
from trainer.data import fetch, plan, prepare, stages
from trainer.data.plan import PlannedFixations, ShardImages, part_folder
from trainer.data.prepared import PreparedData
from trainer.data.prepared_data import Manifest
from trainer.data.settings import FetchConfig
from trainer.data.source_layout import Fixations
from trainer.data.sources import source_of
from trainer.data.ueyes import ScreenFixations
from trainer.errors import ConflictError, ContentError, NotFoundError, PlaceError, UserError
from trainer.io import files as io_files
from trainer.places.archive_files import open_source
from trainer.places.bucket_place import BucketPlace
from trainer.places.places import stored_at

ROOT = pathlib.Path(__file__).parents[3]
STAGE = """
import os, signal, sys
from trainer.data import stages, tfrecords
from trainer.data.settings import FetchConfig

def die_after(name, n):
    whole = getattr(*name)
    def dying(*arguments):
        dying.n += 1
        return whole(*arguments) if dying.n <= n else os.kill(os.getpid(), signal.SIGKILL)
    dying.n = 0
    setattr(*name, dying)

stage, folder, *rest = sys.argv[1:]
if stage == "decide":
    print(stages.decide(FetchConfig("custom", rest[0], "40x64", max_bad_share=0.1), folder, most_files=2))
elif stage == "prepare":
    if rest[1:]:
        die_after((tfrecords.ShardWriter, "write"), int(rest[1]))
    stages.prepare_shard(folder, int(rest[0]))
else:
    if rest:
        die_after((tfrecords, "write_records"), int(rest[0]))
    stages.merge(folder)
"""


def run(*arguments, status=0):
    """A stage in a process of its own, which ends with this status; the last line that it prints."""
    command = [sys.executable, "-c", STAGE, *map(str, arguments)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ})
    assert answer.returncode == status, answer.stderr
    return answer.stdout.splitlines()[-1] if answer.stdout else ""


def maps_of_ones_own(folder):
    """80 images to train on and 20 for validation, with some that are put aside in each stage."""
    for index in range(100):
        split = "train" if index < 80 else "val"
        save(folder / "stimuli" / split / f"{index:03d}.png", stimulus(index))
        save(folder / "maps" / split / f"{index:03d}.png", density_map(index))
    (folder / "stimuli" / "train" / "003.png").write_bytes(b"broken")
    cut_short = folder / "stimuli" / "train" / "010.png"
    cut_short.write_bytes(cut_short.read_bytes()[:1500])
    save(folder / "maps" / "train" / "060.png", point_map())
    sparse = np.full((24, 32, 3), 255, np.uint8)
    sparse[3:5, 4:20] = 0
    for path in ("train/050.png", "val/085.png"):
        save(folder / "stimuli" / path, sparse)
    (folder / "reading.toml").write_text('confirmed = ["pictures"]\n')
    return folder


def recordings(folder, n=90):
    """Photographs, and a table of where three people looked at each."""
    random = np.random.default_rng(0)
    rows = ["participant,image,x,y"]
    for index in range(n):
        save(folder / f"{index:03d}.png", np.asarray(picture(index, (48, 64))))
        rows += [
            f"P{person},{index:03d}.png,{random.integers(4, 60)},{random.integers(4, 44)}"
            for person in range(3)
            for _ in range(3)
        ]
    (folder / "fixations.csv").write_text("\n".join(rows) + "\n")
    return folder


def points(source, **settings):
    """The settings for a source in the layout of OSIE."""
    return FetchConfig("osie", str(source), "40x64", allow_partial_data=True, **settings)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A folder with 90 images and maps of points."""
    return write_tree(tmp_path_factory.mktemp("tree"), 90)


@pytest.fixture(scope="module")
def whole(tree, tmp_path_factory):
    """The files of the tree, prepared by one process."""
    folder = tmp_path_factory.mktemp("whole") / "set"
    fetch.fetch_dataset(points(tree), folder)
    return files(folder)


def test_stages_in_processes_of_their_own_give_the_bytes_of_one_process(tmp_path):
    """In any order, some killed and run again, with images that only another shard tells to put aside."""
    source, folder = maps_of_ones_own(tmp_path / "source"), tmp_path / "set"
    manifest = fetch.fetch_dataset(
        FetchConfig("custom", str(source), "40x64", max_bad_share=0.1), tmp_path / "whole"
    )
    assert manifest.counts == {"train": 77, "valid": 19}
    assert list(manifest.bad_images) == ["003.png", "010.png", "060.png", "085.png"]
    assert run("decide", folder, source) == "3"
    run("prepare", folder, 2)
    run("prepare", folder, 0, 15, status=-signal.SIGKILL)
    assert not part_folder(folder, 0).exists()
    for shard in (1, 0):
        run("prepare", folder, shard)
    before = files(folder)
    run("prepare", folder, 0)
    assert files(folder) == before
    run("merge", folder, 1, status=-signal.SIGKILL)
    assert not PreparedData(folder).is_there
    run("merge", folder)
    assert files(folder) == files(tmp_path / "whole")


def in_stages(config, folder, **limits):
    """The dataset, prepared in stages from the last shard to the first; the number of shards."""
    n_shards = stages.decide(config, folder, **limits)
    prepared = PreparedData(folder)
    for shard in reversed(range(n_shards)):
        prepared.prepare_shard(shard)
    assert prepared.merge() == prepared.merge() == Manifest.load(folder)
    return n_shards


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (recordings, {"dataset": "custom", "coordinates": "pixels", "test_share": 0.5}),
        (lambda folder: "sample", {"dataset": "salicon", "max_examples": 70}),
    ],
)
def test_tables_and_generated_images_are_told_to_shards(make, settings, tmp_path):
    config = FetchConfig(source=str(make(tmp_path / "source")), image_size="40x64", **settings)
    fetch.fetch_dataset(config, tmp_path / "whole")
    assert in_stages(config, tmp_path / "set", most_files=1) > 4
    assert files(tmp_path / "set") == files(tmp_path / "whole")


def test_folder_may_be_the_mount_of_a_bucket(tree, whole, tmp_path, monkeypatch):
    """No folder can be renamed there, and a part whose copy was interrupted is prepared again."""
    patches.replace(monkeypatch, io_files, "MOUNT", tmp_path)
    rename = pathlib.Path.replace

    def replace(path, target):
        if path.is_dir():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "replace", replace)
    folder = tmp_path / "bucket" / "set"
    folder.mkdir(parents=True)
    assert stages.decide(points(tree), folder, most_files=3) == 2
    half = part_folder(folder, 1)
    half.mkdir()
    for name in (io_files.UNFINISHED, prepare.FACTS):
        (half / name).write_text("half")
    with refused(NotFoundError, "0, 1"):
        stages.merge(folder)
    for shard in (1, 0):
        stages.prepare_shard(folder, shard)
    stages.merge(folder)
    assert files(folder) == whole


def test_merging_goes_on_where_it_was_interrupted_though_a_whole_file_moved_up(tmp_path, monkeypatch):
    source, folder = write_tree(tmp_path / "source", 90), tmp_path / "set"
    config = points(source, max_bad_share=0.5)
    stages.decide(config, tmp_path / "before", most_files=1)
    of_first = ShardImages.load(tmp_path / "before", 0).images
    for image in of_first:
        (source / image.map).write_bytes(b"broken")
    manifest = fetch.fetch_dataset(config, tmp_path / "whole")
    assert len(manifest.bad_images) == len(of_first) > 15
    assert len(manifest.shards["train"]) == 3
    for shard in range(stages.decide(config, folder, most_files=1)):
        stages.prepare_shard(folder, shard)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stages.merge(folder)
    stages.merge(folder)
    assert files(folder) == files(tmp_path / "whole")


def test_test_sets_are_prepared_in_stages_too(tree, tmp_path):
    fetch.fetch_dataset(points(tree), tmp_path / "whole", test_of="salicon")
    assert in_stages(points(tree), tmp_path / "set", test_of="salicon", most_files=3) == 2
    assert files(tmp_path / "set") == files(tmp_path / "whole")


@pytest.mark.parametrize("pack", [lambda path, content: write_zip(path / "set.zip", content), write_tar])
def test_archives_are_opened_by_each_shard(pack, tree, whole, tmp_path):
    source = pack(tmp_path / "set.tar.gz", files(tree))
    config = points(source.parent if source.suffix == ".zip" else source)
    assert in_stages(config, tmp_path / "set", most_files=2) > 1
    written = files(tmp_path / "set")
    of_source = {"manifest.json": b"", "objects.csv": b""}
    assert {**written, **of_source} == {**whole, **of_source}


def test_plan_of_a_bucket_needs_its_images_alone_and_a_shard_its_own_files(
    tree, whole, bucket, tmp_path, monkeypatch
):
    folder = tmp_path / "set"
    source = upload(bucket, tree)
    read, read_listed = [], BucketPlace.read_listed

    def record(place, entry):
        read.append(entry.name)
        return read_listed(place, entry)

    monkeypatch.setattr(BucketPlace, "read_listed", record)
    n_shards = stages.decide(points(source), folder, most_files=2)
    assert sorted(read) == [name for name in files(tree) if name.startswith("stimuli/")]
    shards = [ShardImages.load(folder, shard) for shard in range(n_shards)]
    for shard, images in enumerate(shards):
        assert len(images.objects) == 2 * len(images.images)
        others = [each.name for other in shards if other is not images for each in other.objects]
        contents = {name: bucket.blob(f"{tree.name}/{name}").download_as_bytes() for name in others}
        for name in others:
            bucket.blob(f"{tree.name}/{name}").delete()
        stages.prepare_shard(folder, shard)
        for name, content in contents.items():
            bucket.blob(f"{tree.name}/{name}").upload_from_string(content)
    stages.merge(folder)
    assert {**files(folder), "manifest.json": b""} == {**whole, "manifest.json": b""}


def test_a_key_in_an_address_is_in_no_plan(tree, whole, internet, tmp_path):
    internet.serve("data.example.org/set.zip?key=secret", zipped(files(tree)))
    source, folder = "https://data.example.org/set.zip?key=secret", tmp_path / "set"
    prepared = PreparedData(folder)
    assert len(prepared.decide(points(source))) == 1
    assert not [name for name, content in files(folder).items() if b"secret" in content]
    with refused(UserError, "data.example.org"):
        prepared.prepare_shard(0)
    prepared.prepare_shard(0, source)
    prepared.merge()
    of_source = {"manifest.json": b"", "objects.csv": b""}
    assert {**files(folder), **of_source} == {**whole, **of_source}


def test_a_file_of_a_bucket_is_fetched_when_it_is_read(tree, bucket, tmp_path):
    place = stored_at(upload(bucket, tree))
    listed = place.objects()
    with open_source(place, listed, tmp_path, when_read=True) as members:
        assert [member.path for member in members] == [*files(tree)]
        assert members[3].read() == files(tree)[members[3].path]
        bucket.blob(f"{tree.name}/{members[4].path}").delete()
        bucket.blob(f"{tree.name}/{members[5].path}").upload_from_string(b"another")
        for member in members[4:6]:
            with refused(ConflictError, place.path(member.path)):
                member.read()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


# === Plans ===


@pytest.mark.parametrize(
    ("sizes", "most_bytes", "most_items", "expected"),
    [
        ([], 8, 2, []),
        ([4, 4, 9, 1], 8, 2, [(0, 2), (2, 3), (3, 4)]),
        ([0, 0, 0], 1, 2, [(0, 2), (2, 3)]),
        ([9, 9], 1, 5, [(0, 1), (1, 2)]),
        ([1, 2, 3], 6, 9, [(0, 3)]),
    ],
)
def test_ranges_are_as_long_as_the_limits_allow(sizes, most_bytes, most_items, expected):
    ranges = plan.cut(sizes, most_bytes, most_items)
    assert [(each.start, each.stop) for each in ranges] == expected


def test_shards_are_cut_by_bytes(tree, tmp_path):
    n_bytes = sum(map(len, files(tree).values()))
    assert stages.decide(points(tree), tmp_path / "one", most_bytes=n_bytes) == 1
    assert stages.decide(points(tree), tmp_path / "more", most_bytes=n_bytes - 1) == 2


@pytest.mark.parametrize(
    "fixations",
    [
        Fixations("of a", np.array([[1.25, 2], [np.nan, 0.1], [-3, 40]]), np.array([0, 1, 1]), (24, 32), True),
        ScreenFixations("of b", np.array([[0.5, 0.25], [2, 2]]), None),
    ],
)
def test_fixations_are_read_from_a_plan_as_they_were(fixations):
    text = json.dumps(dataclasses.asdict(PlannedFixations.of(fixations)))
    read = PlannedFixations(**json.loads(text)).fixations()
    assert type(read) is type(fixations)
    before, after = (each.read((24, 32)) for each in (fixations, read))
    np.testing.assert_array_equal(after.points, before.points)
    np.testing.assert_array_equal(after.observers, before.observers)
    assert (after.n_outside, after.n_blinks) == (before.n_outside, before.n_blinks) != (0, 0)
    assert after.has_known_observers == before.has_known_observers


def test_the_same_plan_may_be_made_twice_and_another_is_refused(tree, tmp_path):
    folder = tmp_path / "set"
    stages.decide(points(tree), folder)
    before = files(folder)
    assert stages.decide(points(tree), folder) == 1
    assert files(folder) == before
    with refused(ConflictError, folder):
        stages.decide(points(tree, max_examples=3), folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").touch()
    with refused(PlaceError, "notes.txt"):
        stages.decide(points(tree), other)


# === What is refused ===


def test_merging_names_the_shards_that_are_missing(tree, tmp_path):
    folder = tmp_path / "set"
    n_shards = stages.decide(points(tree), folder, most_files=1)
    with refused(ContentError, tmp_path / "other"):
        stages.prepare_shard(tmp_path / "other", 0)
    with refused(NotFoundError, n_shards):
        stages.prepare_shard(folder, n_shards)
    for shard in {*range(n_shards)} - {1, 3}:
        stages.prepare_shard(folder, shard)
    with refused(NotFoundError, f"2 of {n_shards}", "1, 3"):
        stages.merge(folder)
    assert not PreparedData(folder).is_there


def test_a_part_that_is_damaged_or_of_another_plan_is_refused(tree, tmp_path):
    folder, other = tmp_path / "set", tmp_path / "other"
    for path, settings in ((folder, {}), (other, {"test_share": 0.5})):
        stages.decide(points(tree, **settings), path)
        stages.prepare_shard(path, 0)
    part = part_folder(folder, 0)
    record = next(part.glob("train-00001*"))
    content = record.read_bytes()
    record.write_bytes(content[:-1])
    with refused(ContentError, record.name):
        stages.merge(folder)
    record.write_bytes(content)
    part_folder(other, 0).rename(part.with_name("kept"))
    part.rename(part_folder(other, 0))
    for stage in (lambda: stages.prepare_shard(other, 0), lambda: stages.merge(other)):
        with refused(ConflictError, 0):
            stage()
    assert prepare.is_prepared(plan.Plan.load(folder), 0, folder) is False


def test_a_source_that_changed_meanwhile_is_refused(tmp_path):
    source, folder = write_tree(tmp_path / "source"), tmp_path / "set"
    stages.decide(points(source), folder)
    save(source / "stimuli" / "3.png", stimulus(99))
    with refused(ConflictError, "3.png"):
        stages.prepare_shard(folder, 0)
    (source / "stimuli" / "3.png").unlink()
    with refused(ConflictError, "3.png"):
        stages.prepare_shard(folder, 0)
    assert not part_folder(folder, 0).exists()
    at = source_of("osie", points("sample").places)
    with refused(ConflictError, "sample"), at.open_part([], "0" * 64, tmp_path, None):
        pass
