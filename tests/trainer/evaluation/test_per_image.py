"""The table of scores, and its file."""

import numpy as np
import pytest

from tests.refusals import refused
from trainer.errors import ContentError, NotFoundError
from trainer.evaluation import confidence, per_image
from trainer.evaluation.per_image import PerImage
from trainer.metrics.metric_table import METRICS

ROWS = {
    "a, b.jpg": {"candidate": {"kld": 0.1 + 0.2, "cc": -0.5, "nss": 1.25}, "uniform": {"kld": 2.0, "cc": 0.0}},
    "é.jpg": {"candidate": {"kld": 1e-7, "cc": 0.25}, "uniform": {"kld": 2.5, "cc": 0.0}},
}


@pytest.fixture
def table():
    return PerImage.of(ROWS)


def test_read_returns_what_write_wrote(table, tmp_path):
    per_image.append_scores(tmp_path / "scores.csv", "salicon", table)
    per_image.append_scores(tmp_path / "scores.csv", "osie", table.only(["é.jpg"]))
    read = PerImage.read_all(tmp_path / "scores.csv", "")
    assert list(read) == ["salicon", "osie"]
    assert read["salicon"].images == list(ROWS)
    for image, models in ROWS.items():
        for model, scores in models.items():
            assert read["salicon"].of_image(model, image) == scores
    assert table.only(["é.jpg", "a, b.jpg"]).scores["uniform"]["kld"].tolist() == [2.5, 2.0]
    assert read["osie"].of_image("candidate", "é.jpg") == ROWS["é.jpg"]["candidate"]


def test_means_leave_out_images_without_a_score(table):
    assert table.means("candidate")["nss"] == 1.25
    assert table.means("candidate")["cc"] == -0.125
    assert "nss" not in table.means("uniform")
    np.testing.assert_array_equal(table.values("candidate", "nss"), [1.25])


def test_metric_without_scores_is_absent(table):
    assert "nss" not in table.only(["é.jpg"]).scores["candidate"]
    assert "sim" not in table.scores["candidate"]


def test_file_from_before_a_metric_existed_is_read(table, tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(per_image, "METRICS", {name: row for name, row in METRICS.items() if name != "nss"})
        per_image.append_scores(tmp_path / "scores.csv", "salicon", table)
    read = PerImage.read_all(tmp_path / "scores.csv", "")["salicon"]
    assert read.of_image("candidate", "a, b.jpg") == {"kld": 0.1 + 0.2, "cc": -0.5}


@pytest.mark.parametrize("content", ["", "image\na\n", "dataset,image,model,kld\nx,y,z,many\n"])
def test_file_without_scores_is_named(content, tmp_path):
    path = tmp_path / "per_image.csv"
    path.write_text(content)
    if not content:
        assert PerImage.read_all(path, "evaluate again") == {}
        path.unlink()
    with refused(NotFoundError if not content else ContentError, "per_image.csv", "evaluate again"):
        PerImage.read_all(path, "evaluate again")


MODELS = {"candidate": 1.0, "uniform": 0.0}
GROUPED = {
    name: {model: {"kld": c * kld} | ({"nss": 2 * c * kld} if name != "b" else {}) for model, c in MODELS.items()}
    for name, kld in {"a": 1.0, "b": 3.0, "c": 5.0, "d": 7.0}.items()
}


def test_a_group_of_images_is_one_value_of_every_mean_and_interval(tmp_path):
    table = PerImage.of(GROUPED, ["site", "site", "", "other"])
    assert (table.n_units, table.is_grouped) == (3, True)
    np.testing.assert_array_equal(table.values("candidate", "kld"), [2.0, 5.0, 7.0])
    np.testing.assert_array_equal(table.values("candidate", "nss"), [2.0, 10.0, 14.0])
    assert table.means("candidate")["kld"] == pytest.approx(14 / 3)
    gain = table.gains("candidate", "uniform", 0.95)["kld"]
    assert (gain.mean, gain.n_images, gain.worse_on, gain.of_groups) == (pytest.approx(-14 / 3), 3, 3, True)
    assert table.intervals("candidate", 0.95)["kld"] == confidence.mean_interval([2.0, 5.0, 7.0])
    per_image.append_scores(tmp_path / "scores.csv", "pages", table)
    read = PerImage.read_all(tmp_path / "scores.csv", "")["pages"]
    assert read.groups == ["site", "site", "", "other"]
    assert read.only(["c", "b", "a"]).groups == ["", "site", "site"]


def test_groups_of_one_image_each_change_nothing():
    alone, grouped = PerImage.of(GROUPED), PerImage.of(GROUPED, ["p", "q", "", "r"])
    assert not grouped.is_grouped
    assert grouped.means("candidate") == alone.means("candidate")
    assert grouped.gains("candidate", "uniform", 0.95) == alone.gains("candidate", "uniform", 0.95)
