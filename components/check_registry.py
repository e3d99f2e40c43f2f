"""Task that checks the model registry before anything is trained."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def check_registry(model_name: str, registry: str) -> None:
    """Write to the registry as a registration would, remove what was written, and find the current default."""
    from pipeline.registry.register import check_shared
    from trainer.errors import reported

    with reported():
        check_shared(registry, model_name)
