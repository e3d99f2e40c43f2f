"""Checks before anything is sent to Vertex AI: the environment is complete and consistent."""

import re
from collections.abc import Iterable, Mapping

from pipeline import cloud
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import FINETUNE, Value, settings_of, steps_of
from pipeline.plan.plan import TrainingPlan, data_size, make_plan, timeout_of
from pipeline.plan.settings import LABEL, AcceleratorConfig, JobConfig
from trainer import storage
from trainer.config import FetchConfig, TrainConfig, with_recipe
from trainer.errors import UserError, check

REGION = r"[a-z]+-[a-z]+[0-9]+"
TAG = r"[\w][\w.-]{0,127}"
REPOSITORY = r"[a-z0-9.:-]+(/[a-z0-9._-]+)+"
FORMS = {
    "project": (r"[a-z][a-z0-9.:-]*[a-z0-9]", "a project's id, such as my-project"),
    "location": (REGION, "a region, such as us-central1"),
    "service_account": (r"[^@\s]+@[^@\s]+", "an e-mail address"),
    "build_service_account": (r"[^@\s]+@[^@\s]+", "an e-mail address"),
    "network": (r"projects/\d+/global/networks/[^/\s]+", "projects/NUMBER/global/networks/NAME"),
    "image_repository": (REPOSITORY, "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY"),
    "image_tag": (TAG, "a tag of the images, such as latest or v1.2"),
}
"""Key of an environment for Vertex AI -> pattern of its value if not empty, and how to write it."""
CONTINENTS = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
"""Multi-region of Cloud Storage -> prefix of the names of its regions."""
DUAL_REGIONS = {
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "NAM4": ("us-central1", "us-east1"),
}
"""Predefined dual-regions (Cloud Storage: Bucket locations); buckets in other dual-regions list their regions."""


def check_environment(environment: Environment) -> None:
    """Raise `UserError` unless the environment is for Vertex AI, with well-formed values."""
    environment.require_target("vertex")
    for name, (form, title) in FORMS.items():
        value = getattr(environment, name)
        check(
            not value or bool(re.fullmatch(form, value)),
            f"{name} of environment {environment.name} is {value!r}; write {title}",
        )
    for key, value in environment.labels.items():
        check(
            key[:1].isalpha() and bool(LABEL.fullmatch(key) and LABEL.fullmatch(value)),
            f"labels of environment {environment.name} have {key!r} = {value!r}; keys and values are at most 63 "
            "lower-case letters, digits, _ and -, and a key begins with a letter",
        )


def plans(environment: Environment, values: Mapping[str, Value]) -> dict[str, TrainingPlan]:
    """The plan of each training step, from all parameters and the size of its dataset in the table of datasets.

    Raises `UserError` if a step does not fit its machines or exceeds `timeout_hours`. With `allow_partial_data` or
    `max_examples` a dataset is planned as a complete one, and its time is not checked.
    """
    made = {}
    for step, title in steps_of(values).items():
        data = FetchConfig(**settings_of(FetchConfig, step, values))
        try:
            training = with_recipe(TrainConfig(**settings_of(TrainConfig, step, values)), step == FINETUNE)
            machines = AcceleratorConfig(**settings_of(AcceleratorConfig, step, values))
            made[step] = make_plan(machines, training, data_size(data), location=environment.location)
            if not (data.max_examples or data.allow_partial_data):
                timeout_of(made[step], JobConfig(**settings_of(JobConfig, step, values)).timeout_hours)
        except UserError as error:
            raise UserError(f"{title.lower()}: {error}") from None
    return made


def check_bucket(environment: Environment) -> None:
    """Raise `UserError` unless the bucket exists and stores its data in the region of the runs."""
    from google.api_core.exceptions import NotFound

    name = environment.bucket.removeprefix("gs://").partition("/")[0]
    with cloud.reported_errors(f"bucket gs://{name}"):
        try:
            # `storage.explained` would name another role: that for reading objects, not for reading a bucket.
            bucket = storage.client().get_bucket(name, timeout=cloud.TIMEOUT_S, retry=storage.retry())
        except NotFound:
            raise UserError(
                f"bucket gs://{name} does not exist; create it with `gcloud storage buckets create gs://{name} "
                f"--location={environment.location}`"
            ) from None
    place = str(bucket.location)
    check(
        bucket_fits(place, bucket.data_locations or (), environment.location),
        f"bucket gs://{name} is in {place.lower()}, but runs are in {environment.location}; use a bucket "
        "there, or set location to the bucket's",
    )


def bucket_fits(place: str, regions: Iterable[str], location: str) -> bool:
    """Whether a bucket stores its data in the region `location`.

    `place` is the bucket's region, dual-region or multi-region; `regions` are those that the bucket itself lists.
    """
    place = place.upper()
    if place in CONTINENTS and not regions:
        return location.startswith(CONTINENTS[place])
    return location in {*map(str.lower, regions), *DUAL_REGIONS.get(place, ()), place.lower()}
