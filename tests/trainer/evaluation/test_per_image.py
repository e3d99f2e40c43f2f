"""The table of scores, and its file."""

import numpy as np
import pytest

from trainer.errors import UserError
from trainer.evaluation import per_image
from trainer.evaluation.per_image import PerImage
from trainer.metric_table import METRICS

ROWS = {
    "a, b.jpg": {"candidate": {"kld": 0.1 + 0.2, "cc": -0.5, "nss": 1.25}, "uniform": {"kld": 2.0, "cc": 0.0}},
    "é.jpg": {"candidate": {"kld": 1e-7, "cc": 0.25}, "uniform": {"kld": 2.5, "cc": 0.0}},
}


@pytest.fixture
def table():
    return PerImage.of(ROWS)


def test_read_returns_what_write_wrote(table, tmp_path):
    per_image.write(tmp_path / "scores.csv", "salicon", table)
    per_image.write(tmp_path / "scores.csv", "osie", table.only(["é.jpg"]))
    read = per_image.read(tmp_path / "scores.csv", "")
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
        per_image.write(tmp_path / "scores.csv", "salicon", table)
    read = per_image.read(tmp_path / "scores.csv", "")["salicon"]
    assert read.of_image("candidate", "a, b.jpg") == {"kld": 0.1 + 0.2, "cc": -0.5}


@pytest.mark.parametrize("content", ["", "image\na\n", "dataset,image,model,kld\nx,y,z,many\n"])
def test_file_without_scores_is_named(content, tmp_path):
    path = tmp_path / "per_image.csv"
    path.write_text(content)
    if not content:
        assert per_image.read(path, "evaluate again") == {}
        path.unlink()
    with pytest.raises(UserError, match=r"per_image.csv .*: evaluate again"):
        per_image.read(path, "evaluate again")
