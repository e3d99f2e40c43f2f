"""Task that deploys a new default version to an endpoint of Vertex AI."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def deploy_version(model_name: str, registry: str, endpoint: str, traffic: int, version: int) -> None:
    """Deploy a version that has become the default, once it answers as in its evaluation."""
    from lifecycle.registry import VertexRegistry
    from trainer.errors import reported

    with reported():
        VertexRegistry.at(registry).deploy(model_name, version, endpoint, traffic)
