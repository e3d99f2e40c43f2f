"""What `predict` refuses before anything is started in an environment."""

import pytest

from pipeline.__main__ import main
from tests.refusals import refused
from trainer.errors import SettingError

ON_BUCKET = {"bucket": "gs://bucket"}
ON_VOLUME = {"bucket": "/data", "volume_claim": "msinet"}


@pytest.fixture
def predict(tmp_path):
    """Call the command for an environment with these keys; the file that it writes, if it is to write one."""

    def call(keys, *words, write=True):
        path = tmp_path / "cluster.toml"
        lines = {"target": "kubeflow", "image_repository": "localhost", "image_tag": "1", **keys}
        path.write_text("\n".join(f'{key} = "{value}"' for key, value in lines.items()))
        file = tmp_path / "predict.yaml"
        main(["predict", *words, "--env", str(path), *(["--write", str(file)] if write else [])])
        return file

    return call


@pytest.mark.parametrize(
    ("keys", "words"), [(ON_BUCKET, ("gs://a/x", "gs://a/y")), (ON_VOLUME, ("/data/x", "gs://a/y"))]
)
def test_pipeline_is_written_for_places_that_tasks_have(predict, keys, words):
    text = predict(keys, *words).read_text()
    assert all(f"defaultValue: {word}" in text for word in words)


@pytest.mark.parametrize(
    ("keys", "words", "named"),
    [
        (ON_BUCKET, ("/data/x", "gs://a/y"), ("SOURCE", "/data/x")),
        (ON_VOLUME, ("/data/x", "y"), ("OUTPUT", "y", "/data")),
        (ON_VOLUME, ("/database/x", "/data/y"), ("SOURCE", "/database/x", "/data")),
    ],
)
def test_place_that_tasks_do_not_have_is_refused(predict, keys, words, named):
    with refused(SettingError, *named):
        predict(keys, *words)


def test_region_is_refused_before_a_task_is(predict):
    with refused(SettingError, "logo=0,0,1,1"):
        predict(ON_BUCKET, "gs://a/x", "gs://a/y", "--region", "logo=0,0,1,1")


def test_kubeflow_needs_a_file(predict):
    with refused(SettingError, "--write", "kubeflow"):
        predict(ON_BUCKET, "gs://a/x", "gs://a/y", write=False)
