"""Task that deploys a version which became the default to an endpoint of Vertex AI."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def deploy_version(model_name: str, registry: str, endpoint: str, traffic: int, version: int, alias: str) -> None:
    """Deploy a new default once it answers as in its evaluation; a challenger is not deployed."""
    from pipeline.registry.vertex import VertexRegistry
    from trainer.artifacts import DEFAULT
    from trainer.errors import reported

    with reported():
        if alias == DEFAULT:
            VertexRegistry.at(registry).deploy(model_name, version, endpoint, traffic)
        else:
            print(f"{model_name} version {version} is the {alias}; {endpoint} answers as before")
