import dataclasses

import pytest

from pipeline.vertex import checks
from tests.vertex import environment
from trainer.errors import UserError

HERE = environment("http://127.0.0.1:1", "bucket")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"target": "local"}, "target local"),
        ({"location": "us-central1-a"}, "'us-central1-a'"),
        ({"project": "My Project"}, "'My Project'"),
        ({"service_account": "runner"}, "service_account of environment prod is 'runner'"),
        ({"network": "default"}, "network of environment prod"),
        ({"image_repository": "msinet"}, "image_repository of environment prod"),
        ({"image_tag": ":latest"}, "image_tag of environment prod"),
        ({"labels": {"Team": "x"}}, "'Team' = 'x'"),
        ({"labels": {"team": "x" * 64}}, "at most 63"),
    ],
)
def test_key_that_vertex_would_refuse_is_named_with_the_environment(changes, named):
    checks.check_environment(HERE)
    with pytest.raises(UserError, match=named):
        checks.check_environment(dataclasses.replace(HERE, **changes))


def test_empty_image_tag_is_refused():
    with pytest.raises(UserError, match="image_tag is empty; target vertex needs it"):
        dataclasses.replace(HERE, image_tag="")


@pytest.mark.parametrize(
    ("place", "regions", "location", "fits"),
    [
        ("US-CENTRAL1", (), "us-central1", True),
        ("US-EAST1", (), "us-central1", False),
        ("US", (), "us-central1", True),
        ("US", (), "europe-west4", False),
        ("EU", (), "europe-west4", True),
        ("NAM4", (), "us-central1", True),
        ("NAM4", (), "us-west1", False),
        ("EUR4", (), "europe-west4", True),
        ("US", ("US-CENTRAL1", "US-WEST1"), "us-west1", True),
        ("US", ("US-CENTRAL1", "US-WEST1"), "us-east1", False),
    ],
)
def test_bucket_must_have_its_data_in_the_region(place, regions, location, fits):
    assert checks.bucket_fits(place, regions, location) is fits
