"""Parameters, figures and tables in the sentences of docs/vertex.md and its reference, compared with the code."""

import dataclasses
import re
import tomllib

import pytest

from pipeline.graph.parameters import STEPS, convert, settings_of
from pipeline.vertex import submit
from tests.guide import Page
from tests.infra import blocks, environment_text
from tests.test_makefile import ROOT
from tests.vertex import environment
from trainer import datasets
from trainer.accelerators import ACCELERATORS, STANDARD
from trainer.config import SAMPLE, FetchConfig
from trainer.data import layout, sample

GUIDE = Page("vertex.md")
REFERENCE = Page("vertex-reference.md")
PAGES = (GUIDE, REFERENCE)
HERE = dataclasses.replace(
    environment("http://127.0.0.1:1", "bucket"), parameters=tomllib.loads(environment_text())["parameters"]
)
"""The environment of the guide, with the parameters that Terraform writes."""
WITH_TENSORBOARD = ["training_service_account=trains@my-project-1.iam.gserviceaccount.com"]
"""The reference says in words that `tensorboard` needs it."""


def parameters_in_text(page):
    """Each set of parameters in sentences and tables."""
    spans = [span.split() for span in page.spans]
    return [words for words in spans if all(re.fullmatch(r"[a-z_]+=\S+", word) for word in words)]


SETS = {" ".join(words): words for page in PAGES for words in parameters_in_text(page)}


def test_text_has_parameters():
    assert ["accelerator=cpu"] in parameters_in_text(GUIDE)
    assert ["base_workers=2"] in parameters_in_text(REFERENCE)


@pytest.mark.parametrize("words", SETS.values(), ids=SETS)
def test_parameters_in_the_text_make_a_run_whose_data_is_accepted(words):
    own = {"tensorboard": WITH_TENSORBOARD, "provisioning": ["accelerator=l4"], "base_workers": ["accelerator=l4"]}
    words = [*words, *own.get(words[0].partition("=")[0], ())]
    values = {name: convert(name, value) for name, _, value in (word.partition("=") for word in words)}
    given = submit.prepare(HERE, values).job["runtimeConfig"]["parameterValues"]
    assert values.items() <= given.items()
    for step in STEPS:
        config = FetchConfig(**settings_of(FetchConfig, step, given))
        if config.source == SAMPLE:
            drawn = sample.settings(config.dataset)
            items = {"train": [None] * drawn.n_train, "valid": [None] * drawn.n_valid}
            layout.check_counts(items, datasets.get(config.dataset), SAMPLE, config.accepts_partial)


def table(page, heading):
    """The rows of the table whose first column has this heading, as lists of cells."""
    lines = page.text[page.text.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_quota_table_names_the_metrics_that_the_accelerators_take():
    for accelerators, metrics, counts in table(GUIDE, "accelerator"):
        needed = [ACCELERATORS[name].quotas(STANDARD) for name in re.findall(r"`([^`]+)`", accelerators)]
        assert set(re.findall(r"`([^`]+)`", metrics)) == {name for quotas in needed for name in quotas}
        assert set(map(int, re.findall(r"\d+", counts))) == {count for each in needed for count in each.values()}


@pytest.mark.parametrize(
    ("sentence", "parameters"),
    [
        (r"on one\sL4 both trainings take about (\S+ minutes) and (\S+ USD)", {"base_dataset": "salicon"}),
        (r"on\sCPUs (\S+ hours) and (\S+\sUSD)", {"base_dataset": "salicon", "accelerator": "cpu"}),
        (r"fine-tuning takes (\d+ h \d+ min) and (\S+\sUSD)", {"accelerator": "cpu"}),
        (r"instead of (\d+ minutes) and\s(\S+\sUSD)", {}),
    ],
)
def test_trainings_of_the_guide_take_what_it_says(sentence, parameters):
    time, usd = re.search(sentence, GUIDE.prose).groups()
    units = {"h": 60, "hours": 60, "min": 1, "minutes": 1}
    minutes = sum(float(count) * units[unit] for count, unit in re.findall(r"(\S+) (\w+)", time))
    taken = [figures(line) for line in submit.estimates(submit.prepare(HERE, parameters))]
    expected = minutes, float(usd.split()[0])
    assert tuple(map(sum, zip(*taken, strict=True))) == pytest.approx(expected, rel=0.1)


def figures(line):
    """Minutes and USD of an estimate."""
    hours, minutes, usd = re.search(r"about (?:(\d+) h )?(\d+) min, about ([\d.]+) USD", line).groups()
    return 60 * int(hours or 0) + int(minutes), float(usd)


def test_roles_of_the_reference_are_those_of_the_infrastructure():
    listed = sorted((account, role.strip("`"), place) for account, role, place in table(REFERENCE, "account"))
    assert listed == sorted(granted())


def granted():
    """(account, role, what it is granted on) of infra/, in the words of the reference."""
    places = {
        "google_service_account.pipeline.name": "account of the pipeline",
        "google_service_account.deployer.name": "account of the deployer",
        "google_storage_bucket.data.name": "data bucket",
        "google_storage_bucket.runs.name": "runs bucket",
        "google_storage_bucket.models.name": "models bucket",
        "google_artifact_registry_repository.images.name": "image repository",
        "google_artifact_registry_repository.templates.name": "template repository",
        "var.project": "project",
    }
    for (kind, _), body in blocks("resource").items():
        if not kind.endswith("_iam_member"):
            continue
        target = next(
            body[key] for key in ("service_account_id", "bucket", "repository", "project") if key in body
        )
        account = re.sub(r"\W|local", "", body["member"]).replace("eachvalue", "people")
        place = places[re.sub(r"[${}]", "", target)]
        place = "itself" if place == f"account of the {account}" else place
        roles = deployer_roles() if "each.value" in body["role"] else [body["role"]]
        yield from ((account, role, place) for role in roles)


def deployer_roles():
    text = (ROOT / "infra" / "accounts.tf").read_text()
    (body,) = re.findall(r"deployer_roles = \[(.*?)\]", text, re.DOTALL)
    return re.findall(r'"(roles/[\w.]+)"', body)
