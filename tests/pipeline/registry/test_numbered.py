"""A registry in TensorFlow Serving's layout: the same in a folder and in a bucket."""

import json
import shutil

import pytest

from pipeline.__main__ import main
from pipeline.registry.register import connect, lineage, register
from pipeline.registry.versions import NO_VERSION
from tests.pipeline.registry.places import BucketFiles, FolderFiles
from trainer import artifacts, files
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import UserError
from trainer.models.find import find_model
from trainer.models.weight_sources import fingerprint


@pytest.fixture(params=["folder", "bucket"])
def registry(request, tmp_path):
    is_folder = request.param == "folder"
    return connect(
        str(tmp_path / "models") if is_folder else f"gs://{request.getfixturevalue('bucket').name}/models"
    )


@pytest.fixture
def stored(registry):
    """The registry's files."""
    return (BucketFiles if registry.address.startswith("gs://") else FolderFiles)(registry.address)


def add(registry, model, promote=True, champion=NO_VERSION):
    return registry.add("msinet", model, {"metrics": {"kld": 0.5}}, promote, champion)


def test_version_is_a_savedmodel_with_the_trainers_model_inside(registry, stored, model):
    assert add(registry, model) == (1, DEFAULT)
    assert stored.read("msinet/1/saved_model.pb") == b"graph"
    assert stored.read("msinet/1/variables/variables.index") == b"index"
    default = registry.default("msinet")
    assert (default.number, default.place) == (1, f"{registry.address}/msinet/1")
    assert (default.model / artifacts.WEIGHTS).read_bytes() == b"weights"
    assert json.loads((default.model / artifacts.MODEL_CONFIG).read_text()) == {"best_epoch": 1}
    assert default.record["metrics"] == {"kld": 0.5}


def test_serving_sees_nothing_but_version_numbers_as_folders(registry, stored, model):
    add(registry, model)
    add(registry, model, champion=1)
    assert {path.split("/")[1] for path in stored.paths() if path.count("/") > 1} == {"1", "2"}


def test_version_numbers_are_not_given_again_below_the_highest(registry, model):
    for champion in (NO_VERSION, 1, 2):
        add(registry, model, champion=champion)
    registry.set_alias("msinet", DEFAULT, 1)
    assert add(registry, model, champion=1) == (4, DEFAULT)


@pytest.mark.parametrize("missing", [artifacts.WEIGHTS, artifacts.MODEL_CONFIG])
def test_incomplete_model_is_refused_and_leaves_nothing(registry, stored, model, missing):
    (model / missing).unlink()
    with pytest.raises(FileNotFoundError):
        add(registry, model)
    assert registry.versions("msinet") == []
    assert stored.paths() == []


def test_folder_without_an_export_is_refused(registry, stored, tmp_path):
    with pytest.raises(UserError, match="has no saved_model"):
        add(registry, tmp_path)
    assert stored.paths() == []


def test_damaged_aliases_and_records_are_named_with_a_remedy(registry, stored, model):
    add(registry, model)
    stored.write("msinet/1/assets.extra/version.json", b"{")
    with pytest.raises(UserError, match=r"1/assets\.extra/version\.json is not JSON .*: restore it, or remove"):
        registry.versions("msinet")
    assert add(registry, model, champion=1) == (2, DEFAULT)
    stored.write("msinet/aliases.json", b"no")
    with pytest.raises(UserError, match=r"aliases\.json is not JSON .*: remove it, then set the default"):
        registry.default("msinet")


def test_version_of_another_writer_is_listed(registry, stored, model, capsys):
    add(registry, model)
    stored.write("msinet/1/assets.extra/version.json", b"{}")
    assert main(["registry", "list", "--registry", registry.address]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.split() == ["msinet@1", *"-----", "default", f"{registry.address}/msinet/1"]
    assert main(["registry", "show", "--registry", registry.address]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["Model", "Place"]
    scores = {"metrics": {"theirs": {"cc": 0.5, "kld": [1], "nss": None}, "total": 1}, "decided_on": "theirs"}
    stored.write("msinet/1/assets.extra/version.json", json.dumps(scores).encode())
    for command in ("list", "show"):
        assert main(["registry", command, "--registry", registry.address]) == 0
        assert "0.500" in capsys.readouterr().out
    stored.write("msinet/1/assets.extra/version.json", json.dumps({"created": "\x1b[2Jnow"}).encode())
    assert main(["registry", "list", "--registry", registry.address]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["msinet@1", r"'\x1b[2Jnow'"]


def test_check_leaves_nothing_and_reads_the_default(registry, stored, model):
    registry.check_writable("msinet")
    assert stored.paths() == []
    add(registry, model)
    before = stored.paths()
    registry.check_writable("msinet")
    assert stored.paths() == before
    stored.remove(f"msinet/1/assets.extra/{artifacts.WEIGHTS}")
    with pytest.raises(
        UserError, match=r"version 1 of model 'msinet' is incomplete: .* has no model\.weights\.h5"
    ):
        registry.check_writable("msinet")


def test_a_model_is_found_by_its_alias_in_the_registry(registry, model):
    add(registry, model)
    add(registry, model, promote=False, champion=1)
    for alias, number in (("@default", 1), ("", 1), ("@challenger", 2), ("@2", 2)):
        found = find_model(f"{registry.address}/msinet{alias}")
        assert (found / artifacts.WEIGHTS).read_bytes() == b"weights"
        assert found.parent.name == str(number)
        assert fingerprint(f"{registry.address}/msinet{alias}") == fingerprint(str(model))


def test_register_takes_metrics_and_decision_from_the_evaluation(registry, model, tmp_path):
    evaluation = {
        "datasets": {"salicon": {"models": {"candidate": {"kld": 0.4}, "uniform": {"kld": 2.0}}}},
        "decides": "salicon",
        "promote": False,
        "reason": "The current default stays.",
    }
    files.write_json(tmp_path / "evaluation" / artifacts.EVALUATION, evaluation)
    (tmp_path / "evaluation" / artifacts.PER_IMAGE).write_text("dataset,image,model,kld\n")
    facts = {"run": "msinet-1"}
    outcome = register(registry, "msinet", str(model), str(tmp_path / "evaluation"), NO_VERSION, facts)
    assert outcome == (1, CHALLENGER)
    record = registry.versions("msinet")[0].record
    assert record["metrics"] == {"salicon": {"kld": 0.4}}
    assert record["decided_on"] == "salicon"
    assert record["lineage"] == facts
    assert record["reason"] == "The current default stays."


def test_better_model_whose_rival_was_replaced_says_so(registry, model, tmp_path, capsys):
    evaluation = {
        "datasets": {},
        "decides": "salicon",
        "promote": True,
        "reason": "The candidate becomes the default.",
    }
    files.write_json(tmp_path / "evaluation" / artifacts.EVALUATION, evaluation)
    (tmp_path / "evaluation" / artifacts.PER_IMAGE).touch()
    outcomes = [
        register(registry, "msinet", str(model), str(tmp_path / "evaluation"), NO_VERSION, {"run": run})
        for run in ("msinet-1", "msinet-2")
    ]
    assert outcomes == [(1, DEFAULT), (2, CHALLENGER)]
    (warning,) = capsys.readouterr().out.splitlines()
    assert "another run has moved the default of model 'msinet' from version 0 to 1 " in warning
    assert "registry set-default 2" in warning


def test_lineage_of_a_folder_that_is_no_prepared_data_names_it(model, tmp_path):
    with pytest.raises(UserError, match="prepared dataset"):
        lineage("run", {"base": str(tmp_path)}, str(model))


def test_default_is_moved_back_from_the_command_line(registry, model, capsys):
    add(registry, model)
    add(registry, model, champion=1)
    assert main(["registry", "set-default", "1", "--registry", registry.address]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f"  default  {registry.address}/msinet/1")
    assert second.endswith(f"  -        {registry.address}/msinet/2")
    assert registry.default("msinet").number == 1
    capsys.readouterr()
    assert main(["registry", "show", "2", "--json", "--registry", registry.address]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 2


def test_versions_go_by_their_aliases_too(registry, model, capsys):
    add(registry, model)
    add(registry, model, promote=False, champion=1)
    for action in ("show", "set-default"):
        assert main(["registry", action, "challenger", "--registry", registry.address]) == 0
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 2}
    for action, version, expected in (("show", "msinet@challenger", 2), ("set-default", "msinet@1", 1)):
        assert main(["registry", action, version, "--registry", registry.address]) == 0
        assert f"msinet@{expected}" in capsys.readouterr().out
    assert registry.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}
    with pytest.raises(UserError, match=r"'msinet' has no version other@1; it has 1, 2 "):
        main(["registry", "show", "other@1", "--registry", registry.address])
    with pytest.raises(
        UserError, match=r"'msinet' has no version newest; it has 1, 2 \(challenger is 2, default is 1\)"
    ):
        main(["registry", "show", "newest", "--registry", registry.address])


def test_command_line_names_a_version_that_does_not_exist(registry, model):
    add(registry, model)
    for action in ("show", "set-default"):
        with pytest.raises(UserError, match="no version 9"):
            main(["registry", action, "9", "--registry", registry.address])


def test_name_that_is_not_registered_leaves_nothing_behind(registry, stored, model):
    add(registry, model)
    with pytest.raises(UserError, match="there is no version of model 'msient'"):
        main(["registry", "set-default", "1", "--registry", registry.address, "--model-name", "msient"])
    with pytest.raises(UserError, match=r"model 'msient' has no version 1 .*versions: none"):
        registry.set_alias("msient", DEFAULT, 1)
    assert {path.split("/")[0] for path in stored.paths()} == {"msinet"}


def test_incomplete_version_is_named_with_its_missing_files(registry, stored, model):
    add(registry, model)
    stored.remove(f"msinet/1/assets.extra/{artifacts.MODEL_CONFIG}")
    with pytest.raises(
        UserError, match=r"version 1 of model 'msinet' is incomplete: .* has no config\.json; restore it"
    ):
        main(["registry", "list", "--registry", registry.address])
    stored.remove("msinet/1/assets.extra")
    with pytest.raises(UserError, match=r"has no version\.json, model\.weights\.h5, config\.json; restore it, or"):
        registry.default("msinet")
    # An incomplete version is no reason to refuse another one.
    assert add(registry, model, champion=1) == (2, DEFAULT)


def test_removed_default_is_named_with_a_remedy(registry, stored, model):
    for champion in (NO_VERSION, 1):
        add(registry, model, champion=champion)
    stored.remove("msinet/2")
    with pytest.raises(
        UserError, match=r"no version 2 .*\(versions: 1\), which is its default; .*set-default VERSION"
    ):
        registry.default("msinet")
    stored.remove("msinet/1")
    with pytest.raises(UserError, match=r"\(versions: none\), which is its default; remove .*aliases\.json$"):
        registry.default("msinet")


# === The same run again ===


def made(run="msinet-1", folder="/runs/a", kld=0.5):
    return {"metrics": {"salicon": {"kld": kld}}, "lineage": {"run": run, "folder": folder}}


@pytest.mark.parametrize("again", [made(), made("msinet-2"), made(folder="/elsewhere")])
@pytest.mark.parametrize("champion", [NO_VERSION, 1])
def test_run_that_registers_the_same_model_again_finds_its_version(registry, model, again, champion):
    assert registry.add("msinet", model, made(), True, NO_VERSION) == (1, DEFAULT)
    assert registry.add("msinet", model, again, champion == NO_VERSION, champion) == (1, DEFAULT)
    assert registry.aliases("msinet") == {DEFAULT: 1}
    assert [version.record["lineage"] for version in registry.versions("msinet")] == [made()["lineage"]]


def test_run_killed_before_its_alias_was_written_gets_it(registry, stored, model):
    registry.add("msinet", model, made(), True, NO_VERSION)
    stored.remove(f"msinet/{artifacts.ALIASES}")
    assert registry.add("msinet", model, made("msinet-2"), True, NO_VERSION) == (1, DEFAULT)
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_challenger_of_the_same_run_becomes_the_default_without_another_version(registry, model):
    registry.add("msinet", model, made("msinet-0", "/runs/other"), True, NO_VERSION)
    assert registry.add("msinet", model, made(), False, 1) == (2, CHALLENGER)
    assert registry.add("msinet", model, made("msinet-2"), True, 1) == (2, DEFAULT)
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 2}


def test_model_with_another_run_scores_or_weights_is_another_version(registry, model):
    registry.add("msinet", model, made(), True, NO_VERSION)
    assert registry.add("msinet", model, made("msinet-2", "/runs/b"), False, 1) == (2, CHALLENGER)
    assert registry.add("msinet", model, made(kld=0.4), False, 1) == (3, CHALLENGER)
    (model / artifacts.WEIGHTS).write_bytes(b"others")
    assert registry.add("msinet", model, made(), False, 1) == (4, CHALLENGER)


def test_lineage_has_the_folder_that_resumed_runs_share(model):
    (model.parent / "msinet-2026").mkdir()
    place = shutil.move(model, model.parent / "msinet-2026" / "model")
    assert lineage("msinet-2026", {}, str(place))["folder"] == str(model.parent)
    assert lineage("msinet-2027", {}, str(place))["folder"] == str(place)
