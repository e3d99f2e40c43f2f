import pathlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lifecycle.registry.register import open_registry
from lifecycle.registry.settings import PipelineConfig
from lifecycle.registry.vertex_registry import METRICS_SCHEMA, UNPROMOTED, VertexRegistry, root_of
from lifecycle.runs.settled import validate_values
from pipeline.local import run_folder
from tests.lifecycle.registry.test_contract import add
from tests.refusals import refused
from tests.vertex import DROP, LOCATION, PARENT, PROJECT, SERVING
from trainer.errors import AmbiguousError, MismatchError, SettingError, UnreachableError, UserError
from trainer.models.model_names import CHALLENGER, DEFAULT
from trainer.places import buckets
from trainer.places.bucket_place import BucketPlace

ADDRESS = f"vertex://{PROJECT}/{LOCATION}"
LABELS = {
    "managed_by": "msinet-pipelines",
    "run": "msinet-1",
    "code": "0-1-0-5f2a",
    "data_base": "salicon-aa01",
    "data_finetune": "fixationadd1000-bb02",
}
DESCRIPTION = """The candidate becomes the default: it is better.
Run msinet-1, code 0.1.0+5f2a.
base: salicon from gs://data/salicon
finetune: fixationadd1000 from gs://data/add1000
fixationadd1000: kld 0.4321, information_gain -0.1000
salicon: kld 0.5000"""


@pytest.fixture
def registry(address):
    return open_registry(address)


def uploads(vertex):
    return vertex.sent("POST", "models:upload")


# === A version ===


def test_first_version_is_uploaded_without_a_parent_and_the_next_one_below_it(vertex, registry, model, bucket):
    assert add(registry, model) == (1, DEFAULT)
    (request,) = uploads(vertex)
    assert request.path == f"/v1/{PARENT}/models:upload"
    assert request.body == {
        "model": {
            "displayName": "msinet",
            "artifactUri": f"gs://{bucket.name}/models/msinet/msinet-1",
            "containerSpec": {
                "imageUri": SERVING,
                "predictRoute": "/v1/models/msinet:predict",
                "healthRoute": "/v1/models/msinet",
                "ports": [{"containerPort": 8080}],
            },
            "versionAliases": ["default"],
            "versionDescription": DESCRIPTION,
            "labels": LABELS,
        },
    }
    assert add(registry, model, "msinet-2", default=1) == (2, DEFAULT)
    second = uploads(vertex)[1].body
    assert second["parentModel"].endswith("/models/4000")
    assert (second["model"]["versionAliases"], second["model"]["labels"]["run"]) == (["default"], "msinet-2")


@pytest.mark.parametrize("earlier", [0, 1])
def test_runs_that_end_together_register_one_after_the_other(vertex, registry, model, monkeypatch, earlier):
    for number in range(earlier):
        add(registry, model, f"earlier-{number}")
    upload = VertexRegistry._upload
    monkeypatch.setattr(VertexRegistry, "_upload", lambda *given: time.sleep(0.5) or upload(*given))
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(add, registry, model, f"together-{index}", default=earlier) for index in range(2)]
    assert sorted(run.result() for run in runs) == [(earlier + 1, DEFAULT), (earlier + 2, CHALLENGER)]
    assert registry.aliases("msinet") == {DEFAULT: earlier + 1, CHALLENGER: earlier + 2}


def test_lock_that_a_killed_run_has_left_is_taken_over(vertex, registry, model, bucket, monkeypatch, capsys):
    lock = bucket.blob("models/msinet/.registering")
    lock.upload_from_string("process 7 on vm")
    monkeypatch.setattr("lifecycle.registry.vertex_registry.ABANDONED_S", 0.05)
    assert add(registry, model) == (1, DEFAULT)
    assert f"waiting until process 7 on vm releases gs://{bucket.name}/{lock.name}" in capsys.readouterr().out
    assert not lock.exists()


def test_each_data_set_becomes_an_evaluation_of_the_version(vertex, registry, model):
    add(registry, model)
    first, second = vertex.sent("POST", "evaluations:import")
    assert first.path.endswith("/models/4000@1/evaluations:import")
    assert first.body["modelEvaluation"] == {
        "displayName": "fixationadd1000",
        "metricsSchemaUri": METRICS_SCHEMA,
        "metrics": {"kld": 0.4321, "information_gain": -0.1},
        "metadata": {"pipeline_job_id": "msinet-1", "evaluation_dataset_type": "fixationadd1000"},
    }
    assert second.body["modelEvaluation"]["displayName"] == "salicon"


def test_local_run_without_a_staging_folder_is_refused_before_it_starts():
    with refused(SettingError, "registry", f"vertex://{PROJECT}/{LOCATION}", "staging=gs:"):
        run_folder.prepare_run("sample", "", "", {"registry": f"{ADDRESS}?serving={SERVING}"})


# === Default and challenger ===


def test_first_version_that_was_not_promoted_has_an_alias_beside_the_default_of_vertex_ai(vertex, registry, model):
    add(registry, model, promote=False)
    add(registry, model, "msinet-2", promote=False)
    sent = [upload.body["model"]["versionAliases"] for upload in uploads(vertex)]
    assert sent == [[CHALLENGER, UNPROMOTED], [CHALLENGER]]
    ((first, second),) = [model["versions"].values() for model in vertex.kept("models").values()]
    assert (first["versionAliases"], second["versionAliases"]) == ([UNPROMOTED, DEFAULT], [CHALLENGER])
    registry.set_alias("msinet", DEFAULT, 1)
    assert first["versionAliases"] == [DEFAULT]


def test_version_before_pretrained_keeps_the_default_of_vertex_ai_which_does_not_count(vertex, registry, model):
    for number in (1, 2):
        add(registry, model, f"msinet-{number}", default=number - 1)
    registry.set_alias("msinet", DEFAULT, 0)
    ((first, second),) = [model["versions"].values() for model in vertex.kept("models").values()]
    assert (first["versionAliases"], second["versionAliases"]) == ([], [DEFAULT, UNPROMOTED])
    registry.set_alias("msinet", DEFAULT, 1)
    assert registry.aliases("msinet") == {DEFAULT: 1}
    registry.set_alias("msinet", DEFAULT, 2)
    assert (first["versionAliases"], second["versionAliases"]) == ([], [DEFAULT])


def test_promotion_meanwhile_does_not_undo_the_way_back_to_pretrained(vertex, registry, model, monkeypatch):
    for number in (1, 2):
        add(registry, model, f"msinet-{number}", default=number - 1)
    change, late = VertexRegistry._change_aliases, []

    def promoted_meanwhile(self, entry, changes):
        if not late:
            late.append(add(registry, model, "msinet-3", default=2))
        change(self, entry, changes)

    monkeypatch.setattr(VertexRegistry, "_change_aliases", promoted_meanwhile)
    registry.set_alias("msinet", DEFAULT, 0)
    assert (late, registry.default("msinet")) == ([(3, DEFAULT)], None)


def test_default_moves_even_if_the_bucket_may_not_be_written(vertex, registry, model, monkeypatch, capsys):
    for number in (1, 2):
        add(registry, model, f"msinet-{number}", default=number - 1)

    def refused(*_):
        raise UserError("no permission to write")

    monkeypatch.setattr(buckets, "replace_state", refused)
    registry.set_alias("msinet", DEFAULT, 1)
    assert registry.aliases("msinet") == {DEFAULT: 1}
    assert "warning: when the default moved is not written down: no permission" in capsys.readouterr().err


def test_alias_is_moved(vertex, registry, model):
    add(registry, model)
    add(registry, model, "msinet-2", default=1)
    registry.set_alias("msinet", DEFAULT, 1)
    (request,) = vertex.sent("POST", ":mergeVersionAliases")
    assert request.path.endswith("/models/4000@1:mergeVersionAliases")
    assert request.body["versionAliases"] == [DEFAULT]
    assert registry.aliases("msinet") == {DEFAULT: 1}


# === Models of others ===


def foreign(vertex, name="msinet", number="7000", **fields):
    version = {
        "name": f"{PARENT}/models/{number}",
        "displayName": name,
        "versionId": "1",
        "versionAliases": ["default"],
        "versionCreateTime": "2026-01-01T00:00:00Z",
        **fields,
    }
    vertex.kept("models")[number] = {"versions": {"1": version}}


def test_models_that_are_not_the_only_one_of_ours_are_left_alone(vertex, registry, model):
    foreign(vertex)
    with refused(MismatchError, "msinet", "7000", "model_name"):
        add(registry, model)
    for number in ("7000", "7001"):
        foreign(vertex, number=number, labels={"managed_by": "msinet-pipelines"})
    with refused(AmbiguousError, "msinet", "7000", "7001"):
        add(registry, model)
    assert not uploads(vertex)


def test_default_that_this_pipeline_did_not_register_is_refused(vertex, registry, bucket):
    foreign(vertex, labels={"managed_by": "msinet-pipelines"}, artifactUri=f"gs://{bucket.name}/elsewhere")
    with refused(MismatchError, "version 1", "msinet", f"gs://{bucket.name}/elsewhere"):
        registry.default("msinet")


# === Failures ===


@pytest.mark.parametrize("after", [False, True], ids=["lost-before", "carried-out"])
@pytest.mark.parametrize("status", [DROP, 503])
def test_task_that_runs_again_after_a_lost_reply_makes_one_version(vertex, registry, model, status, after):
    vertex.fail(status, path="models:upload", after=after)
    with refused(UnreachableError):
        add(registry, model)
    assert add(registry, model) == (1, DEFAULT)
    (stored,) = vertex.kept("models").values()
    assert len(stored["versions"]) == 1
    (evaluations,) = vertex.kept("evaluations").values()
    assert [evaluation["displayName"] for evaluation in evaluations] == ["fixationadd1000", "salicon"]


@pytest.mark.parametrize("path", ["evaluations", "evaluations:import"])
def test_version_is_registered_even_if_its_evaluations_are_refused(vertex, registry, model, path, capsys):
    vertex.fail(400, path=f"/{path}")
    assert add(registry, model) == (1, DEFAULT)
    assert "warning: " in capsys.readouterr().out


def test_run_that_registers_again_writes_nothing(vertex, registry, model, bucket):
    def written():
        return {blob.name: blob.generation for blob in bucket.list_blobs()}

    add(registry, model)
    before = written()
    add(registry, model)
    assert len(uploads(vertex)) == 1
    assert written() == before


def test_check_writes_to_the_staging_folder_and_reads_the_models(vertex, registry, bucket):
    registry.check_writable("msinet")
    assert not list(bucket.list_blobs())
    vertex.fail(403, path="models", message="Permission 'aiplatform.models.list' denied")
    with refused(UnreachableError, "aiplatform.models.list", 403):
        registry.check_writable("msinet")
    assert not uploads(vertex)


# === Addresses ===


def test_versions_are_kept_in_the_configured_folder_or_in_the_models_bucket():
    on_bucket, here = pathlib.Path("/gcs/bucket/msinet/run/model"), pathlib.Path("runs/1/model")
    assert str(root_of(on_bucket, "")) == "gs://bucket/models"
    assert (
        root_of(on_bucket, "gs://other/kept/")
        == root_of(here, "gs://other/kept")
        == BucketPlace("gs://other/kept")
    )
    with refused(SettingError, here):
        root_of(here, "")


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("vertex://proj", ("registry", "location", "''")),
        ("vertex://proj/us-central1/models", ("registry", "location", "us-central1/models")),
        ("vertex://Proj x/us-central1", ("registry", "project", "Proj x")),
        ("vertex://proj/us-central1?zone=a", ("registry", "zone")),
        ("vertex://proj/us-central1?serving=cpu", ("serving", "cpu", "images/serving")),
        ("vertex://proj/us-central1?staging=/tmp", ("staging", "/tmp")),
    ],
)
def test_malformed_address_is_refused(address, named):
    for read in (open_registry, lambda registry: PipelineConfig(registry=registry)):
        with refused(SettingError, *named):
            read(address)


def test_version_needs_an_image_that_serves_it_before_the_run_starts(vertex, address):
    bare = address.replace(f"&serving={SERVING}", "")
    with refused(SettingError, f"vertex://{PROJECT}/{LOCATION}", "?serving=IMAGE"):
        validate_values({"registry": bare}, "vertex")
    with refused(SettingError, f"vertex://{PROJECT}/{LOCATION}", "?serving=IMAGE"):
        open_registry(bare).check_writable("msinet")
    validate_values({"registry": address}, "vertex")
    assert open_registry(bare).versions("msinet") == []  # to look at what is there needs none
