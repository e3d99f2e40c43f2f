"""Task that checks the places of versions and checkpoints before anything is trained."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def check_registry(platform: str, model_name: str, registry: str, checkpoint_dir: str) -> None:
    """Write to the registry as a registration would, remove what was written, and find the current default.

    The place of the checkpoints is checked in the same way, if it is not that of the trainings' outputs.
    """
    from pipeline.registry.register import check_shared
    from pipeline.training_job import check_places
    from trainer.errors import reported

    with reported():
        check_places(platform, registry, checkpoint_dir)
        check_shared(registry, model_name)
