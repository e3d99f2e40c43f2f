import pathlib

import pytest

from pipeline.registry import staging
from trainer import storage
from trainer.errors import UserError


def test_versions_are_kept_in_the_configured_folder_or_in_the_models_bucket():
    mounted = pathlib.Path("/gcs/bucket/msinet/run/model")
    assert staging.root_of(mounted, "", "vertex://...") == "gs://bucket/models"
    assert staging.root_of(mounted, "gs://other/kept/", "vertex://...") == "gs://other/kept"
    for model in ("runs/1/model", "/gcsfuse/bucket/model"):
        assert staging.root_of(pathlib.Path(model), "gs://other/kept", "vertex://...") == "gs://other/kept"
        with pytest.raises(UserError, match=r"not on Cloud Storage.*vertex://proj"):
            staging.root_of(pathlib.Path(model), "", "vertex://proj")


def test_version_is_found_where_vertex_mounts_it():
    folder = staging.mounted("gs://bucket/models/msinet/run")
    assert folder == pathlib.Path("/gcs/bucket/models/msinet/run/assets.extra")


def test_folder_without_a_record_has_none(bucket):
    client = storage.client()
    assert staging.read_record(f"gs://{bucket.name}/models/msinet/run", client) is None
    assert staging.read_record("", client) is None
