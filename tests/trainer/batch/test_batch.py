"""Batch predictions give the maps of `predict`, each image once, whatever stops them."""

import json
import os
import pathlib
import random
import shutil
import signal
import time
import zipfile

import numpy as np
import polars as pl
import pytest
from PIL import Image

from tests import predicting
from tests.patches import replace
from tests.predicting import assert_whole, write_photos
from tests.refusals import refused
from trainer.batch import BatchConfig, collect_job, job, measure_source, plan_job, predict_shard
from trainer.batch.job import read_shard
from trainer.batch.listing import list_images
from trainer.batch.shards import pieces
from trainer.data.plan import cut
from trainer.errors import AmbiguousError, ConflictError, ContentError, FailedError, NotFoundError
from trainer.machine import multiplies_bfloat16
from trainer.places import stored_at
from trainer.prediction import PredictConfig, Predictor, draw_grey, parse_regions
from trainer.prediction.regions import focus, heat_of, measure_regions, peak_of

pytestmark = pytest.mark.usefixtures("narrow")
PNG = PredictConfig(format="png")
REGION = "logo:10%,10%,20%,20%"
COUNT = 14


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """The folder of COUNT pictures, and their keys. Blocks have five images."""
    replace(monkeypatch, job, "BLOCK_IMAGES", predicting.BLOCK)
    return tmp_path / "photos", write_photos(tmp_path / "photos", COUNT)


def predict_all(source, output, model, predict=PNG, config=None, regions=(REGION,)):
    planned = plan_job(str(source), str(output), str(model), predict, regions, config)
    for shard in range(planned.shards):
        predict_shard(str(output), shard, config)
    return collect_job(str(output))


def test_maps_and_rows_are_those_of_the_predictor(photos, tmp_path, narrow_model):
    source, keys = photos
    done = predict_all(source, tmp_path / "out", narrow_model, config=BatchConfig(shard_gigabytes=4e-5))
    assert (done.images, done.unread) == (COUNT, 0)
    table = assert_whole(tmp_path / "out", keys)
    assert len(list((tmp_path / "out/table").iterdir())) > 2
    predictor = Predictor(narrow_model, "bfloat16" if multiplies_bfloat16() else "float32")
    (region,) = parse_regions([REGION])
    for row in table.rows(named=True):
        found = predictor.predict(np.asarray(Image.open(source / row["key"]).convert("RGB")))
        drawn = np.asarray(Image.open(tmp_path / "out/png" / f"{row['key']}.png"))
        np.testing.assert_array_equal(drawn, np.asarray(draw_grey(found)))
        assert (row["height"], row["width"]) == found.shape
        assert (row["peak_y"], row["peak_x"]) == peak_of(found)
        assert row["focus"] == pytest.approx(focus(found), rel=1e-6)
        assert row["heat"] == pytest.approx(heat_of(found), rel=1e-6)
        (measured,) = measure_regions(found, [region])
        assert row["regions"][0]["share"] == pytest.approx(measured.share, rel=1e-6)


def test_heat_is_the_share_of_each_cell():
    density = np.zeros((16, 24), np.float32)
    density[2:4, 3:6] = 2.0  # the whole second cell of the second row
    density[15, 23] = 4.0
    shares = np.reshape(heat_of(density), (8, 8))
    assert shares[1, 1] == pytest.approx(12 / 16)
    assert shares[7, 7] == pytest.approx(4 / 16)
    assert shares.sum() == pytest.approx(1)
    assert heat_of(np.zeros((3, 5), np.float32)) == [0.0] * 64


def test_a_table_alone_writes_no_maps(photos, tmp_path, narrow_model):
    source, keys = photos
    predict_all(source, tmp_path / "out", narrow_model, PredictConfig())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("job.json", "shards", "summary.json", "table", "unread.csv"),
    ]
    assert sorted(pl.read_parquet(tmp_path / "out/table/*.parquet")["key"]) == keys


def test_unread_images_are_in_a_table_with_the_reason(photos, tmp_path, narrow_model):
    source, keys = photos
    (source / "a/000.png").write_bytes(b"no picture")
    (source / "b/001.png").write_bytes((source / "b/001.png").read_bytes()[:300])
    done = predict_all(source, tmp_path / "out", narrow_model)
    bad = ("a/000.png", "b/001.png")
    table = assert_whole(tmp_path / "out", keys, bad)
    assert done.unread == 2
    assert sorted(table.filter(pl.col("error").is_not_null())["key"]) == list(bad)
    unread = pl.read_csv(tmp_path / "out/unread.csv")
    assert sorted(unread["key"]) == list(bad)
    assert all("png" in reason for reason in unread["reason"])


def test_names_that_no_result_can_have_are_unread(photos, tmp_path, narrow_model):
    source, keys = photos
    picture = (source / keys[0]).read_bytes()
    (pathlib.Path(os.fsdecode(os.fsencode(source) + b"/a/latin\xff.png"))).write_bytes(picture)
    (source / "a/two\nlines.png").write_bytes(picture)
    (source / "a/000.png.png").mkdir()
    (source / "a/000.png.png/x.png").write_bytes(picture)
    (source / "loop").symlink_to(source)
    (source / "gone.png").symlink_to(tmp_path / "nothing")
    os.mkfifo(source / "pipe.png")
    done = predict_all(source, tmp_path / "out", narrow_model)
    assert done.images == COUNT + 5
    table = pl.read_parquet(tmp_path / "out/table/*.parquet")
    unread = table.filter(pl.col("error").is_not_null())["key"].to_list()
    # The map of a/000.png is a/000.png.png, which is a folder for that of the other.
    assert len(set(unread) - {"a/000.png", "a/000.png.png/x.png"}) == 4
    assert {"gone.png", "pipe.png"} < set(unread)
    assert done.unread == len(unread) == 5
    maps = [path for path in (tmp_path / "out/png").rglob("*") if path.is_file()]
    assert len(maps) == done.images - done.unread


def test_too_many_unread_images_stop_a_shard_which_goes_on_when_more_may_be(photos, tmp_path, narrow_model):
    source, keys = photos
    for key in keys[:11]:
        (source / key).write_bytes(b"no picture")
    with refused(ContentError, "11", "14", "max_bad_share", keys[0]):
        predict_all(source, tmp_path / "out", narrow_model)
    with refused(FailedError, "1 of 1"):
        collect_job(str(tmp_path / "out"))
    predict_shard(str(tmp_path / "out"), 0, BatchConfig(max_bad_share=0.9))
    assert collect_job(str(tmp_path / "out")).unread == 11
    assert_whole(tmp_path / "out", keys, tuple(keys[:11]))


def test_another_job_in_the_same_folder_is_refused(photos, tmp_path, narrow_model):
    source, _ = photos
    output = str(tmp_path / "out")
    plan_job(str(source), output, str(narrow_model), PNG)
    plan_job(str(source), output, str(narrow_model), PNG)
    with refused(ConflictError, "settings", "png16"):
        plan_job(str(source), output, str(narrow_model), PredictConfig(format="png16"))
    with refused(ConflictError, "source"):
        plan_job(str(source / "a"), output, str(narrow_model), PNG)


def test_a_model_that_was_replaced_is_refused(photos, tmp_path, narrow_model):
    """An alias may move while a job runs: half of its maps would be another model's."""
    source, _ = photos
    model, output = tmp_path / "model", str(tmp_path / "out")
    shutil.copytree(narrow_model, model)
    plan_job(str(source), output, str(model), PNG)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "dataset": "osie"}))
    with refused(FailedError, str(model)):
        predict_shard(output, 0)
    assert not (tmp_path / "out/png").exists()


def test_a_bucket_gives_what_a_folder_gives(photos, tmp_path, narrow_model, bucket):
    source, keys = photos
    for key in keys:
        bucket.blob(f"photos/{key}").upload_from_string((source / key).read_bytes())
    bucket.blob("photos/notes.txt").upload_from_string("no picture")
    address = f"gs://{bucket.name}"
    assert measure_source(f"{address}/photos") == measure_source(str(source))
    predict_all(source, tmp_path / "here", narrow_model)
    predict_all(f"{address}/photos", f"{address}/out", narrow_model)
    found = {blob.name: blob.download_as_bytes() for blob in bucket.list_blobs(prefix="out/png/")}
    assert sorted(found) == [f"out/png/{key}.png" for key in keys]
    for key in keys:
        assert found[f"out/png/{key}.png"] == (tmp_path / "here/png" / f"{key}.png").read_bytes()
    assert not list(bucket.list_blobs(prefix="out/work/"))
    summary = json.loads(bucket.blob("out/summary.json").download_as_bytes())
    assert (summary["images"], summary["unread"]) == (COUNT, 0)


def test_an_archive_is_unpacked_for_as_long_as_the_job_lasts(photos, tmp_path, narrow_model):
    source, keys = photos
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for key in keys:
            archive.write(source / key, key)
    predict_all(tmp_path / "photos.zip", tmp_path / "out", narrow_model)
    assert_whole(tmp_path / "out", keys)
    assert not (tmp_path / "out/unpacked").exists()


# === Listings ===


def test_a_list_has_keys_of_its_own(photos, tmp_path):
    source, keys = photos
    lines = [
        f"photos/{keys[0]}",
        "",
        "# a comment",
        f"photos/{keys[1]}\tnamed/it.png",
        "https://h.org/x/y.jpg?size=1",
    ]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    found = list(list_images(str(tmp_path / "list.txt")))
    assert [each.key for each in found] == [f"photos/{keys[0]}", "named/it.png", "h.org/x/y.jpg?size=1"]
    assert found[0].address == str(source / keys[0])
    assert found[0].size_bytes == (source / keys[0]).stat().st_size


def test_equal_keys_in_a_list_are_refused(tmp_path):
    (tmp_path / "list.txt").write_text("gs://b/x.jpg\nhttps://b/x.jpg\n")
    with refused(AmbiguousError, "b/x.jpg", "1", "2"):
        list(list_images(str(tmp_path / "list.txt")))


@pytest.mark.parametrize("name", ["nothing", "empty", "nothing.txt"])
def test_a_source_without_images_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with refused(NotFoundError, name):
        list(list_images(str(tmp_path / name)))


def test_shards_are_cut_by_bytes_and_keep_every_image_once():
    chances = random.Random(0)
    sizes = [chances.randrange(1, 30) for _ in range(500)]
    ranges = cut(sizes, 100, 7)
    assert [index for each in ranges for index in each] == list(range(500))
    for each in ranges:
        assert len(each) <= 7
        assert sum(sizes[index] for index in each) <= 100
    assert cut([500], 100, 7) == [range(0, 1)]
    assert cut([], 100, 7) == []


def test_the_pieces_of_a_listing_are_those_of_its_sizes(photos):
    source, _ = photos
    listed = list(list_images(str(source)))
    found = [len(piece) for piece in pieces(iter(listed), 30_000, 4)]
    assert found == [len(each) for each in cut([each.size_bytes for each in listed], 30_000, 4)]
    assert len(found) > 3


# === Killed ===


def test_a_killed_job_goes_on_and_leaves_nothing(photos, tmp_path, narrow_model):
    source, keys = photos
    killed = predicting.predict_killed(source, tmp_path / "out", narrow_model, 3, random.Random(1))
    assert killed > 0
    assert_whole(tmp_path / "out", keys)


def test_what_is_done_is_not_predicted_again(photos, tmp_path, narrow_model):
    source, _ = photos
    predict_all(source, tmp_path / "out", narrow_model)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/png").rglob("*.png")}
    manifest = tmp_path / "out/shards/00000.json"
    predict_all(source, tmp_path / "out", narrow_model)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out/png").rglob("*.png")}
    content = json.loads(manifest.read_text())
    assert content["done"]
    assert len(content["blocks"]) == 3


def test_processes_end_with_the_command(photos, tmp_path, narrow_model):
    """A worker that outlived a killed command would write beside the next one."""
    source, _ = photos
    process = predicting.start(source, tmp_path / "out", narrow_model)
    while not (workers := workers_of(tmp_path / "out")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert workers
    deadline = time.monotonic() + 60
    while workers_of(tmp_path / "out") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers_of(tmp_path / "out")


def workers_of(output):
    """The processes that predict blocks of a folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"trainer.batch.blocks" in words and str(output).encode() in words:
            found.append(path)
    return found


def test_the_list_of_a_shard_is_written_once(photos, tmp_path, narrow_model):
    """Images that come later are not taken up: the listing is the job's."""
    source, keys = photos
    plan_job(str(source), str(tmp_path / "out"), str(narrow_model), PNG)
    (source / "a/new.png").write_bytes((source / keys[0]).read_bytes())
    plan_job(str(source), str(tmp_path / "out"), str(narrow_model), PNG)
    assert [key for key, *_ in read_shard(stored_at(str(tmp_path / "out")), 0)] == keys
