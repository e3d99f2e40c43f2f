"""New recordings beside those that a model was made of."""

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from tests.refusals import refused
from trainer.data import copies
from trainer.errors import ContentError
from trainer.evaluation import recorded
from trainer.evaluation.recorded import Line

N = 20


def lines(seed=0, **changes):
    random = np.random.default_rng(seed)
    made = []
    for index in range(N):
        x, y = random.uniform(0.2, 0.8, 2)
        cells = {
            "split": "train",
            "image": f"{index}.png",
            "digest": f"d{index}",
            "hash": "",
            "recording": f"a{index} b{index}",
        }
        made.append({**cells, "x": f"{x:.6g}", "y": f"{y:.6g}", "fixations": "40"} | changes)
    return made


def compare(now, before):
    return recorded.compare([Line.of(line) for line in now], [Line.of(line) for line in before])


def test_the_same_recordings_have_not_changed_and_people_may_be_added():
    now = [{**line, "recording": f"c{i} {line['recording']}", "fixations": "60"} for i, line in enumerate(lines())]
    now.append({**now[0], "image": "new.png", "digest": "other"})
    compared = compare(now, lines())
    assert (len(compared.pairs), len(compared.added), compared.n_gone, compared.changed) == (N, 1, 0, [])


def changed(change, which=range(N)):
    now = lines()
    for index in which:
        now[index] = {**now[index], "recording": f"other{index}", **change(now[index])}
    return compare(now, lines())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: {"y": 1 - float(line["y"])}, "y is as if from the other side"),
        (lambda line: {"x": 1 - float(line["x"])}, "x is as if from the other side"),
        (lambda line: {"x": float(line["x"]) + 0.06}, "6% of the width to the right"),
        (lambda line: {"y": float(line["y"]) - 0.1}, "10% of the height up"),
        (lambda line: {"fixations": 20}, "0.5 times as many fixations"),
        (lambda line: {}, ""),
    ],
)
def test_how_recordings_changed_is_said(change, said):
    compared = changed(change)
    assert len(compared.changed) == N
    assert said in compared.how()
    assert said or not compared.how()


def test_recordings_of_other_images_are_named():
    now, before = lines(), lines()
    for index in range(4):
        now[index] = {**now[index], "recording": before[(index + 1) % 4]["recording"]}
    compared = compare(now, before)
    assert [pair.now.image for pair in compared.changed] == [f"{index}.png" for index in range(4)]
    assert "0.png has that of 1.png" in compared.how()


def test_images_that_are_gone_are_counted():
    compared = compare(lines()[: N // 2], lines())
    assert (compared.n_before, compared.n_gone) == (N, N // 2)


def test_what_is_written_is_read(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    header = list(lines()[0])
    rows = [",".join(header), *(",".join(line.values()) for line in lines())]
    (folder / "images.csv").write_text("\n".join(rows))
    recorded.write_recorded(tmp_path / "recorded.csv", {"finetune": folder, "test": folder})
    found = recorded.read_recorded(tmp_path)
    assert list(found) == ["finetune", "test"]
    assert recorded.compare(recorded.read_lines(folder), found["test"]).changed == []
    assert recorded.read_recorded(tmp_path / "of-an-earlier-version") == {}


def test_recordings_of_cropped_and_mirrored_copies_are_not_compared():
    """A cropped copy is the same picture, with positions of its own. A mirrored one has mirrored positions."""
    noise = gaussian_filter(np.random.default_rng(0).normal(size=(96, 128)), 3)
    pixels = (255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)
    shown = {"plain": pixels, "cropped": pixels[2:-2, 3:-3], "mirrored": pixels[:, ::-1], "encoded": pixels}

    def line(name):
        size = shown[name].shape
        hash_ = copies.hash_of(Image.fromarray(shown[name]))
        sizes = {"pixels": f"{size[0] * size[1]}", "aspect": f"{size[1] / size[0]:.6g}"}
        return lines()[0] | {"image": name, "digest": name, "hash": hash_, "recording": f"of-{name}", **sizes}

    compared = compare([line(name) for name in shown], [line("plain")])
    assert [pair.now.image for pair in compared.pairs] == ["plain", "cropped", "encoded"]
    assert [pair.now.image for pair in compared.changed] == ["encoded"]
    assert [each.image for each in compared.added] == ["mirrored"]
    assert compared.n_gone == 0


def test_a_picture_under_several_names_has_a_recording_under_each():
    before = [*lines(), lines()[0] | {"image": "again.png", "recording": "other"}]
    compared = compare(before, before)
    assert (compared.changed, compared.n_gone, compared.added) == ([], 0, [])
    compared = compare(before[1:], before)  # the picture is still there, under its other name
    assert (compared.changed, compared.n_gone) == ([], 0)


def test_sparse_pictures_that_were_encoded_again_are_known_by_their_names():
    before = lines(pixels="100", aspect="1")
    now = [
        line | {"image": line["image"].replace(".png", ".jpg"), "digest": f"j{line['digest']}"} for line in before
    ]
    compared = compare(now, before)
    assert (len(compared.pairs), compared.added, compared.n_gone, compared.changed) == (N, [], 0, [])
    resized = [line | {"pixels": "1"} for line in now]
    assert len(compare(resized, before).added) == N


@pytest.mark.parametrize("content", [b"data,split,image\nfinetune,train,a.png\n", b"\xff\xfe\x00", b"data"])
def test_a_damaged_list_is_named_with_a_remedy(content, tmp_path):
    (tmp_path / "recorded.csv").write_bytes(content)
    if content == b"data":  # a header alone has no image
        assert recorded.read_recorded(tmp_path) == {}
        return
    with refused(ContentError, "recorded.csv"):
        recorded.read_recorded(tmp_path)
    with refused(ContentError, "images.csv"):
        recorded.read_lines(tmp_path)
