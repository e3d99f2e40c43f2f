import json
import multiprocessing
import os
import pathlib
import shutil

import pytest

from pipeline.__main__ import main
from pipeline.registry.folder import LocalRegistry
from pipeline.registry.register import connect, lineage, register
from pipeline.registry.versions import NO_VERSION
from trainer import artifacts, files
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import UserError

PROCESSES = 6


@pytest.fixture
def registry(tmp_path):
    return LocalRegistry(tmp_path / "models")


def add(registry, model, promote=True, champion=NO_VERSION):
    return registry.add("msinet", model, {"metrics": {"kld": 0.5}}, promote, champion)


def test_version_is_a_savedmodel_with_the_trainers_model_inside(registry, model):
    assert add(registry, model) == (1, DEFAULT)
    folder = registry.root / "msinet" / "1"
    assert (folder / "saved_model.pb").read_bytes() == b"graph"
    assert (folder / "variables" / "variables.index").read_bytes() == b"index"
    default = registry.default("msinet")
    assert (default.number, default.model) == (1, folder / "assets.extra")
    assert (default.model / artifacts.WEIGHTS).read_bytes() == b"weights"
    assert json.loads((default.model / artifacts.MODEL_CONFIG).read_text()) == {"best_epoch": 1}
    assert default.record["metrics"] == {"kld": 0.5}


def test_serving_sees_nothing_but_version_numbers_as_folders(registry, model):
    add(registry, model)
    add(registry, model, champion=1)
    assert sorted(path.name for path in (registry.root / "msinet").iterdir() if path.is_dir()) == ["1", "2"]


def test_version_numbers_are_not_given_again_below_the_highest(registry, model):
    for champion in (NO_VERSION, 1, 2):
        add(registry, model, champion=champion)
    registry.set_alias("msinet", DEFAULT, 1)
    assert add(registry, model, champion=1) == (4, DEFAULT)


def _register(root, model, start, results):
    start.wait()
    results.put(LocalRegistry(root).add("msinet", model, {}, True, NO_VERSION))


def test_processes_registering_at_once_get_different_versions_and_one_default(registry, model):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES), context.Queue()
    arguments = (registry.root, model, start, results)
    processes = [context.Process(target=_register, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(number for number, _ in outcomes) == list(range(1, PROCESSES + 1))
    assert [alias for _, alias in outcomes].count(DEFAULT) == 1
    assert len(registry.versions("msinet")) == PROCESSES
    assert (registry.default("msinet").number, DEFAULT) in outcomes


def test_incomplete_model_is_refused_and_leaves_nothing(registry, model):
    (model / artifacts.WEIGHTS).unlink()
    with pytest.raises(FileNotFoundError):
        add(registry, model)
    assert registry.versions("msinet") == []
    assert not [path for path in (registry.root / "msinet").iterdir() if path.name != ".lock"]


def test_folder_without_an_export_is_refused(registry, tmp_path):
    with pytest.raises(UserError, match="has no saved_model"):
        add(registry, tmp_path)
    assert not registry.root.exists()


def test_leftovers_of_a_killed_writer_are_removed(registry, model):
    leftover = registry.root / "msinet" / f".partial-{os.getpid() + 1}-7"
    leftover.mkdir(parents=True)
    (leftover / "saved_model.pb").write_bytes(b"half")
    assert add(registry, model) == (1, DEFAULT)
    assert not leftover.exists()


def test_register_takes_metrics_and_decision_from_the_evaluation(registry, model, tmp_path):
    evaluation = {
        "datasets": {"salicon": {"models": {"candidate": {"kld": 0.4}, "uniform": {"kld": 2.0}}}},
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
    assert record["lineage"] == facts
    assert record["reason"] == "The current default stays."


def test_lineage_of_a_folder_that_is_no_prepared_data_names_it(model, tmp_path):
    with pytest.raises(UserError, match="not a prepared dataset"):
        lineage("run", {"base": str(tmp_path)}, str(model))


def test_registry_is_in_the_working_directory_unless_it_is_named(tmp_path):
    assert connect("").root == pathlib.Path("models")
    assert connect(str(tmp_path)).root == tmp_path


def test_default_is_moved_back_from_the_command_line(registry, model, capsys):
    add(registry, model)
    add(registry, model, champion=1)
    assert main(["registry", "set-default", "1", "--registry", str(registry.root)]) == 0
    assert registry.default("msinet").number == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f"  {registry.root / 'msinet' / '1'}  default")
    assert second.endswith(f"  {registry.root / 'msinet' / '2'}")
    assert main(["registry", "show", "2", "--registry", str(registry.root)]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 2


def test_versions_go_by_their_aliases_too(registry, model, capsys):
    add(registry, model)
    add(registry, model, promote=False, champion=1)
    for action in ("show", "set-default"):
        assert main(["registry", action, "challenger", "--registry", str(registry.root)]) == 0
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 2}
    with pytest.raises(
        UserError, match=r"'msinet' has no version newest; it has 1, 2 \(challenger is 2, default is 2\)"
    ):
        main(["registry", "show", "newest", "--registry", str(registry.root)])


def test_command_line_names_a_version_that_does_not_exist(registry, model):
    add(registry, model)
    for action in ("show", "set-default"):
        with pytest.raises(UserError, match="no version 9"):
            main(["registry", action, "9", "--registry", str(registry.root)])


def test_name_that_is_not_registered_leaves_nothing_behind(registry, model):
    add(registry, model)
    with pytest.raises(UserError, match="there is no version of model 'msient'"):
        main(["registry", "set-default", "1", "--registry", str(registry.root), "--model-name", "msient"])
    with pytest.raises(UserError, match=r"model 'msient' has no version 1 .*versions: none"):
        registry.set_alias("msient", DEFAULT, 1)
    assert [path.name for path in registry.root.iterdir()] == ["msinet"]


def test_incomplete_version_is_named_with_its_missing_files(registry, model):
    add(registry, model)
    extra = registry.versions("msinet")[0].model
    (extra / artifacts.MODEL_CONFIG).unlink()
    with pytest.raises(
        UserError, match=r"version 1 of model 'msinet' is incomplete: .* has no config\.json; restore it"
    ):
        main(["registry", "list", "--registry", str(registry.root)])
    shutil.rmtree(extra)
    with pytest.raises(UserError, match=r"has no version\.json, model\.weights\.h5, config\.json; restore it, or"):
        registry.default("msinet")
    # An incomplete version is no reason to refuse another one.
    assert add(registry, model, champion=1) == (2, DEFAULT)


def test_removed_default_is_named_with_a_remedy(registry, model):
    for champion in (NO_VERSION, 1):
        add(registry, model, champion=champion)
    shutil.rmtree(registry.root / "msinet" / "2")
    with pytest.raises(
        UserError, match=r"no version 2 .*\(versions: 1\), which is its default; .*set-default VERSION"
    ):
        registry.default("msinet")
    shutil.rmtree(registry.root / "msinet" / "1")
    with pytest.raises(UserError, match=r"\(versions: none\), which is its default; remove .*aliases\.json$"):
        registry.default("msinet")


@pytest.mark.parametrize("place", ["", "models"])
def test_registry_below_a_file_is_refused(place, model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write .*file.*Not a directory.*name another place"):
        add(LocalRegistry(tmp_path / "file" / place), model)


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


def test_run_killed_before_its_alias_was_written_gets_it(registry, model):
    registry.add("msinet", model, made(), True, NO_VERSION)
    (registry.root / "msinet" / artifacts.ALIASES).unlink()
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


def test_registry_that_cannot_be_a_folder_is_refused_by_the_command():
    with pytest.raises(UserError, match="registry is 'gs://bucket/models'; "):
        main(["registry", "list", "--registry", "gs://bucket/models"])
