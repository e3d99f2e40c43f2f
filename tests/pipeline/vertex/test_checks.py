import dataclasses
import json

import pytest

from pipeline.vertex import checks
from tests.gcs import answering, refusing
from tests.vertex import environment
from trainer import storage
from trainer.errors import UserError

HERE = environment("http://127.0.0.1:1", "bucket")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(storage, "RETRY_S", 0.05)


def test_environment_of_the_tests_is_complete():
    checks.check_environment(HERE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "local"}, "environment prod is for target local, not vertex; run it with"),
        ({"location": "us-central1-a"}, "location of environment prod is 'us-central1-a'; write a region"),
        ({"location": "US"}, "location of environment prod is 'US'"),
        ({"project": "My Project"}, "project of environment prod is 'My Project'"),
        (
            {"service_account": "runner"},
            "service_account of environment prod is 'runner'; write an e-mail address",
        ),
        ({"network": "default"}, "write projects/NUMBER/global/networks/NAME"),
        ({"image_repository": "msinet"}, "write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY"),
        ({"image_tag": ":latest"}, "image_tag of environment prod is ':latest'"),
        ({"labels": {"Team": "x"}}, "labels of environment prod have 'Team' = 'x'"),
        ({"labels": {"team": "x" * 64}}, "at most 63 lower-case letters"),
    ],
)
def test_key_that_vertex_would_refuse_is_named_with_the_environment(changes, message):
    with pytest.raises(UserError, match=message):
        checks.check_environment(dataclasses.replace(HERE, **changes))


def test_empty_image_tag_is_refused():
    with pytest.raises(UserError, match="image_tag is empty; target vertex needs it"):
        dataclasses.replace(HERE, image_tag="")


@pytest.mark.parametrize(
    ("place", "regions", "location", "fits"),
    [
        ("US-CENTRAL1", (), "us-central1", True),
        ("US-EAST1", (), "us-central1", False),
        ("EUROPE-WEST4", (), "us-central1", False),
        ("US", (), "us-central1", True),
        ("US", (), "europe-west4", False),
        ("EU", (), "europe-west4", True),
        ("ASIA", (), "asia-northeast1", True),
        ("ASIA", (), "us-west1", False),
        ("NAM4", (), "us-central1", True),
        ("NAM4", (), "us-west1", False),
        ("EUR4", (), "europe-west4", True),
        ("US", ("US-CENTRAL1", "US-WEST1"), "us-west1", True),
        ("US", ("US-CENTRAL1", "US-WEST1"), "us-east1", False),
    ],
)
def test_bucket_must_have_its_data_in_the_region(place, regions, location, fits):
    assert checks.bucket_fits(place, regions, location) is fits


def test_bucket_in_the_region_of_the_run_is_accepted(bucket):
    checks.check_bucket(environment("http://127.0.0.1:1", bucket.name))


def test_bucket_in_another_region_is_refused(bucket):
    elsewhere = dataclasses.replace(environment("http://127.0.0.1:1", bucket.name), location="europe-west4")
    with pytest.raises(
        UserError, match=f"bucket gs://{bucket.name} is in us-central1, but runs are in europe-west4"
    ):
        checks.check_bucket(elsewhere)


def test_bucket_of_two_regions_is_accepted_in_each(monkeypatch):
    placed = {"dataLocations": ["US-CENTRAL1", "US-EAST1"]}
    resource = {"name": "bucket", "location": "US", "customPlacementConfig": placed}
    answer = 200, {"Content-Type": "application/json"}, json.dumps(resource).encode()
    with answering(monkeypatch, lambda path: answer):
        checks.check_bucket(HERE)
        with pytest.raises(UserError, match="bucket gs://bucket is in us, but runs are in us-west1"):
            checks.check_bucket(dataclasses.replace(HERE, location="us-west1"))


def test_missing_bucket_is_named_with_the_command_that_creates_it(bucket):
    command = "gcloud storage buckets create gs://no-such-bucket --location=us-central1"
    with pytest.raises(UserError, match=f"bucket gs://no-such-bucket does not exist; create it with `{command}`"):
        checks.check_bucket(dataclasses.replace(HERE, bucket="gs://no-such-bucket/msinet"))


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "bucket gs://bucket: no permission"), (503, "bucket gs://bucket: the service failed")],
)
def test_bucket_that_fails_to_respond_is_named(monkeypatch, status, message):
    with answering(monkeypatch, refusing(status)), pytest.raises(UserError, match=message):
        checks.check_bucket(HERE)
