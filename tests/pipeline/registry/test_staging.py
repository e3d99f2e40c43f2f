import pathlib

import pytest

from pipeline.registry import staging
from tests.gcs import answering, refusing
from trainer import storage
from trainer.errors import UserError


@pytest.mark.parametrize(
    ("model", "configured", "place"),
    [
        ("/gcs/bucket/msinet/run/model", "", "gs://bucket/models"),
        ("/gcs/bucket/msinet/run/model", "gs://other/kept/", "gs://other/kept"),
        ("runs/1/model", "gs://other/kept", "gs://other/kept"),
    ],
)
def test_versions_are_kept_in_the_configured_folder_or_in_the_models_bucket(model, configured, place):
    assert staging.root(pathlib.Path(model), configured, "vertex://...") == place


@pytest.mark.parametrize("model", ["runs/1/model", "/gcsfuse/bucket/model"])
def test_model_elsewhere_needs_a_place(model):
    with pytest.raises(UserError, match=r"not on Cloud Storage.*vertex://proj"):
        staging.root(pathlib.Path(model), "", "vertex://proj")


def test_version_is_found_where_vertex_mounts_it():
    folder = staging.mounted("gs://bucket/models/msinet/run")
    assert folder == pathlib.Path("/gcs/bucket/models/msinet/run/assets.extra")


def test_folder_without_a_record_has_none(bucket):
    client = storage.client()
    assert staging.record(f"gs://{bucket.name}/models/msinet/run", client) is None
    assert staging.record("", client) is None


def test_folder_that_may_not_be_written_or_read_is_named_with_the_role(monkeypatch, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    with answering(monkeypatch, refusing(403)):
        with pytest.raises(UserError, match=r"no permission to write gs://kept/1/saved_model.pb .*Object User"):
            staging.write("gs://kept/1", tmp_path, {}, {})
        with pytest.raises(UserError, match=r"no permission to read gs://kept/1/assets.extra/version.json"):
            staging.record("gs://kept/1", storage.client())
