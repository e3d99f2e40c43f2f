"""Task that adds a version to the model registry."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import VertexModel
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def upload_model(
    platform: str,
    model_name: str,
    registry: str,
    run: str,
    inputs: str,
    endpoint: str,
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Input[dsl.Artifact],
    base_data: dsl.Input[dsl.Dataset],
    finetune_data: dsl.Input[dsl.Dataset],
    test_data: dsl.Input[dsl.Dataset],
    registered: dsl.Output[VertexModel],
    base_version: str = "",
) -> NamedTuple("Outputs", [("version", int), ("alias", str), ("Output", str)]):  # type: ignore[valid-type]
    """Register `model` as the default if it won the evaluation, otherwise as the challenger.

    `registered` is the version in the registry. On Kubeflow only its metadata name it, since the launcher refuses
    an output outside of the run's folder. Output is the endpoint to deploy it to: `endpoint` for a new default,
    and empty for a challenger.
    """
    from lifecycle.registry import Address, fetched_of, lineage_of, open_registry, register_model
    from trainer.errors import reported
    from trainer.models import DEFAULT

    with reported():
        fetched = fetched_of({"base": base_data.path, "finetune": finetune_data.path, "test": test_data.path})
        region = Address.found(registry) if platform == "vertex" else None
        facts = lineage_of(run, fetched, model.path, inputs, base_version, region)
        champion = int(evaluation.metadata["champion"])
        connected = open_registry(registry)
        version, alias = register_model(connected, model_name, model.path, evaluation.path, champion, facts)
        uri, registered.metadata["resourceName"] = connected.resource_of(model_name, version)
        registered.uri = registered.uri if platform == "kubeflow" else uri
        print(f"{model_name} version {version} is now the {alias}")
        return version, alias, endpoint if alias == DEFAULT else ""
