"""What a version says about itself: labels, description, tables and JSON."""

import json
import pathlib
import re

import pytest

from lifecycle.registry import vertex_registry
from lifecycle.registry.folder_registry import LocalRegistry
from pipeline.__main__ import main
from trainer.datasets.table import DATASETS
from trainer.evaluation.version_record import VersionRecord
from trainer.metrics.metric_table import METRICS
from trainer.models.provenance import Provenance
from trainer.models.registry_layout import PRETRAINED_VERSION

KEY, VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
"""https://cloud.google.com/resource-manager/docs/labels-overview#requirements"""


def record(**lineage):
    scores = dict.fromkeys(METRICS, -1.23456)
    data = {
        step: {"dataset": name, "source": "gs://Data/Set.zip", "fingerprint": "f" * 64}
        for step, name in zip(("base", "finetune", "test"), DATASETS, strict=False)
    }
    facts = {"run": "Msinet-2026.01.01", "code_version": "0.1.0+5F2A-dirty", "data": data, **lineage}
    return VersionRecord.of(
        {"metrics": dict.fromkeys(DATASETS, scores), "reason": "It is better.", "lineage": facts}
    )


@pytest.mark.parametrize("run", ["msinet-1", "Ärger/Über Nacht", "x" * 200, ""])
def test_labels_keep_to_googles_rules(run):
    made = vertex_registry.labels_of(record(run=run))
    assert all(re.fullmatch(KEY, key) for key in made)
    assert all(re.fullmatch(VALUE, value) for value in made.values())


def test_labels_have_run_code_and_data():
    first, second, third, *_ = DATASETS
    assert vertex_registry.labels_of(record()) == {
        "managed_by": "msinet-pipelines",
        "run": "msinet-2026-01-01",
        "code": "0-1-0-5f2a-dirty",
        "data_base": f"{first}-{'f' * 64}"[:63],
        "data_finetune": f"{second}-{'f' * 64}"[:63],
        "data_test": f"{third}-{'f' * 64}"[:63],
    }


def test_description_says_first_if_a_model_is_of_the_sample_set():
    first, second, *_ = vertex_registry.description_of(record(model={"source": "sample"})).splitlines()
    assert first == Provenance({"source": "sample"}).notice()
    assert second == vertex_registry.description_of(record()).splitlines()[0] == "It is better."


@pytest.fixture
def registry(tmp_path):
    return LocalRegistry(tmp_path / "models")


def test_list_and_show_have_what_people_ask_for(registry, model, tmp_path, capsys):
    scores = {"auc_judd": 0.912, "nss": 2.9844, "cc": 0.7152, "kld": 0.6938}
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").touch()
    base = {"dataset": "salicon", "source": "gs://b/s"}
    data = {"base": {"dataset": "salicon", "counts": {"train": 10000, "valid": 5000}}}
    facts = {"run": "msinet-1", "folder": str(run), "code_version": "0.1.0+abc", "data": data}
    facts["model"] = {"dataset": "custom", "source": "gs://b/lab.zip", "base_model": base}
    gain = {"metric": "kld", "mean": 0.05, "low": 0.02, "high": 0.08, "level": 0.974, "n_images": 90}
    record = {"metrics": {"osie": scores, "salicon": {"cc": 0.5}}, "decided_on": "osie", "reason": "It is better."}
    record |= {"compared_with": 0, "gain": gain, "findings": ["All y are mirrored."], "end": "promoted"}
    registry.add("msinet", model, {**record, "lineage": facts}, True, PRETRAINED_VERSION)
    flags = ["--registry", str(registry.root)]
    assert main(["registry", "list", *flags]) == 0
    heading, shipped, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["version", "date", "data", "gain", "over", "end", "alias", "place"]
    place = f"{registry.root}/msinet/1"
    number, date, *rest = re.split(" {2,}", line)
    gained = "KLD +0.050 (0.020 to 0.080)"
    assert [number, *rest] == ["msinet@1", "salicon, lab", gained, "0", "promoted !", "default", place]
    assert heading.index("place") == line.index(place) == shipped.index("pretrained")
    assert main(["registry", "show", *flags]) == 0
    known = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert known.pop("Created").strip().startswith(date)
    assert {name: value.strip() for name, value in known.items()} == {
        "Model": "msinet@1 (default)",
        "Data": "base salicon (10,000 training and 5,000 validation)",
        "On osie": "AUC-Judd 0.912, NSS 2.984, CC 0.715, KLD 0.694",
        "On salicon": "CC 0.500",
        "Decision": "It is better.",
        "Gain": "KLD better by 0.0500 than pretrained on 90 images (97.4% interval of the gain: 0.0200 to 0.0800)",
        "Known": "Data: All y are mirrored.",
        "Code": "0.1.0+abc",
        "Run": "msinet-1",
        "Report": str(run / "report.html"),
        "Place": place,
    }
    assert main(["registry", "list", "--json", *flags]) == 0
    _, entry = json.loads(capsys.readouterr().out)
    about = {"model": "msinet", "version": 1, "aliases": ["default"], "place": place}
    assert entry.items() >= about.items()
    assert entry["metrics"]["osie"] == scores
    assert entry["gain"] == gain


def test_list_says_what_came_of_each_version(registry, model, capsys):
    default = 0
    for number, end in enumerate(("promoted", "challenger", "held", "promoted", "disagree"), 1):
        promote, lineage = end == "promoted", {"run": str(number)}
        content = {"metrics": {}, "end": end, "promote": promote, "compared_with": default, "lineage": lineage}
        registry.add("msinet", model, content, promote, default)
        default = number if promote else default
    registry.set_alias("msinet", "default", 1)
    registry.add("msinet", model, {"metrics": {}, "lineage": {}}, False, 1)
    assert main(["registry", "list", "--registry", str(registry.root)]) == 0
    rows = [re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[4:6] for row in rows] == [
        ["0", "promoted"],
        ["1", "challenger"],
        ["1", "held"],
        ["1", "promoted, rolled back"],
        ["4", "disagree"],
        ["-", "-"],
    ]


def test_history_is_a_page_whose_path_is_printed(registry, model, tmp_path, monkeypatch, capsys):
    for number in (1, 2):
        gain = {"metric": "kld", "mean": 0.05, "low": 0.02, "high": 0.08, "level": 0.974, "n_images": 90}
        content = {"metrics": {}, "compared_with": number - 1, "promote": True, "gain": gain}
        registry.add("msinet", model, {**content, "lineage": {"run": str(number)}}, True, number - 1)
    registry.set_alias("msinet", "default", 1)
    monkeypatch.chdir(tmp_path)
    assert main(["registry", "history", "--registry", str(registry.root)]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert path.is_absolute()
    page = path.read_text()
    assert "A person rolled it back to version 1" in page
    assert "KLD better by 0.0500 than version 1 on 90 images" in page
