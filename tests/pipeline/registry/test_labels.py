import re

import pytest

from pipeline.registry import versions
from trainer import generated
from trainer.datasets import DATASETS
from trainer.metric_table import METRICS

KEY, VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
"""https://cloud.google.com/resource-manager/docs/labels-overview#requirements"""


def record(**lineage):
    scores = dict.fromkeys(METRICS, -1.23456)
    data = {
        step: {"dataset": name, "source": "gs://Data/Set.zip", "fingerprint": "f" * 64}
        for step, name in zip(("base", "finetune", "test"), DATASETS, strict=False)
    }
    facts = {"run": "Msinet-2026.01.01", "code_version": "0.1.0+5F2A-dirty", "data": data, **lineage}
    return {"metrics": dict.fromkeys(DATASETS, scores), "reason": "It is better.", "lineage": facts}


@pytest.mark.parametrize("run", ["msinet-1", "Ärger/Über Nacht", "x" * 200, ""])
def test_labels_keep_to_googles_rules(run):
    made = versions.of(record(run=run))
    assert all(re.fullmatch(KEY, key) for key in made)
    assert all(re.fullmatch(VALUE, value) for value in made.values())


def test_labels_have_run_code_and_data():
    first, second, third, *_ = DATASETS
    assert versions.of(record()) == {
        "managed_by": "msinet-pipelines",
        "run": "msinet-2026-01-01",
        "code": "0-1-0-5f2a-dirty",
        "data_base": f"{first}-{'f' * 64}"[:63],
        "data_finetune": f"{second}-{'f' * 64}"[:63],
        "data_test": f"{third}-{'f' * 64}"[:63],
    }


def test_description_says_why_and_from_what():
    first, made, base, *others = versions.describe(record()).splitlines()
    assert first == "It is better."
    assert made == "Run Msinet-2026.01.01, code 0.1.0+5F2A-dirty."
    assert base == "base: salicon from gs://Data/Set.zip"
    assert others[-1].endswith("information_gain -1.2346")


def test_description_of_a_model_of_the_sample_set_says_so_first():
    first, second, *_ = versions.describe(record(model={"source": "sample"})).splitlines()
    assert first == generated.of_model({"source": "sample"})
    assert second == "It is better."
