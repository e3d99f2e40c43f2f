import pathlib

import pytest

from pipeline.registry import staging
from trainer.errors import UserError


@pytest.mark.parametrize(
    ("model", "given", "place"),
    [
        ("/gcs/bucket/msinet/run/model", "", "gs://bucket/models"),
        ("/gcs/bucket/msinet/run/model", "gs://other/kept/", "gs://other/kept"),
        ("runs/1/model", "gs://other/kept", "gs://other/kept"),
    ],
)
def test_versions_are_kept_where_it_is_said_or_in_the_models_bucket(model, given, place):
    assert staging.staging(pathlib.Path(model), given, "vertex://...") == place


@pytest.mark.parametrize("model", ["runs/1/model", "/gcsfuse/bucket/model"])
def test_model_elsewhere_needs_a_place(model):
    with pytest.raises(UserError, match=r"not on Cloud Storage.*vertex://proj"):
        staging.staging(pathlib.Path(model), "", "vertex://proj")


def test_version_is_found_where_vertex_mounts_it():
    folder = staging.mounted("gs://bucket/models/msinet/run")
    assert folder == pathlib.Path("/gcs/bucket/models/msinet/run/assets.extra")


def test_folder_without_a_record_has_none(bucket):
    assert staging.record(f"gs://{bucket.name}/models/msinet/run") is None
    assert staging.record("") is None
