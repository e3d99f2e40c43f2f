"""Places outside the pod, on folders of this machine and on a server of Cloud Storage."""

import pathlib

import pytest

from pipeline.plan.plan import check_outside_pod
from pipeline.plan.step import check_places, check_writable, checkpoint_folder
from trainer.errors import UserError

RUN, SALT = "0b3a7c52-6a5c-4c39-9d5e-1f1b1f4f8a01", "5d6ff1de-9c0b-4c36-8a0c-7d3c7e9b2a02"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "registry is empty: its default is a folder which is lost with the pod; set registry to gs://NAME"),
        ("models", "registry is 'models', a folder which is lost with the pod; set registry to gs://NAME/FOLDER"),
        ("./models", "registry is './models', a folder which is lost with the pod"),
        ("/gcs/bucket/models", "registry is '/gcs/bucket/models', but on Kubeflow /gcs is a folder which is lost"),
        ("/minio", "on Kubeflow /minio is a folder which is lost with the pod"),
    ],
)
def test_folder_in_the_pod_is_refused(address, message):
    with pytest.raises(UserError, match=message):
        check_outside_pod("registry", address)


@pytest.mark.parametrize(
    "address", ["gs://bucket/models", "vertex://project/us-central1", "/data/models", "/gcsdata"]
)
def test_place_outside_the_pod_passes(address):
    check_outside_pod("registry", address)


def test_places_in_a_pod_are_refused_on_kubeflow_alone(tmp_path):
    place = str(tmp_path / "checkpoints")
    check_places("local", "", "")
    check_places("vertex", "", "")
    check_places("vertex", "/gcs/bucket/models", place)
    check_places("kubeflow", "gs://bucket/models", place)
    with pytest.raises(UserError, match="registry is '/gcs/bucket/models', but on Kubeflow"):
        check_places("kubeflow", "/gcs/bucket/models", place)
    with pytest.raises(UserError, match="checkpoint_dir is 'state', a folder"):
        check_places("kubeflow", "gs://bucket/models", "state")


def test_check_writes_and_leaves_nothing(tmp_path, bucket):
    check_writable("checkpoint_dir", str(tmp_path / "checkpoints"))
    assert list((tmp_path / "checkpoints").iterdir()) == []
    check_writable("checkpoint_dir", f"gs://{bucket.name}/checkpoints")
    assert list(bucket.list_blobs()) == []


def test_place_that_cannot_be_written_is_reported(tmp_path, bucket):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=r"checkpoint_dir is '.*/file', where nothing can be written: cannot write"
    ):
        check_writable("checkpoint_dir", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"checkpoint_dir is 'gs://nobody/state', where .*no bucket 'nobody'"):
        check_writable("checkpoint_dir", "gs://nobody/state")


def output(run, salt, root="gs://bucket/v2/artifacts"):
    """The address of a model as Kubeflow's driver makes it."""
    return f"{root}/msinet/{run}/train-model/{salt}/model"


@pytest.mark.parametrize("root", ["gs://bucket/root", "minio://mlpipeline/v2/artifacts", "s3://bucket"])
def test_checkpoints_on_kubeflow_are_below_their_run(root):
    place = checkpoint_folder("gs://b/state/", "base", output(RUN, SALT, root), "/anywhere/model")
    assert place == f"gs://b/state/{RUN}/base"


def test_checkpoints_of_another_run_are_elsewhere():
    first, again, other = (
        checkpoint_folder("/data", "finetune", output(run, salt), "/pod")
        for run, salt in [(RUN, SALT), (RUN, RUN), (SALT, SALT)]
    )
    assert first == again != other  # a run that is retried as a whole gets another SALT


def test_checkpoints_on_this_machine_are_where_they_are_asked_for(tmp_path: pathlib.Path):
    model = str(tmp_path / "model")
    assert checkpoint_folder("runs/1/checkpoints", "base", model, model) == "runs/1/checkpoints/base"
    assert checkpoint_folder("", "base", model, model) == f"{model}.checkpoints"
