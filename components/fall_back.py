"""Task that starts the next run if a training got no machine, after all other tasks, failed or not."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fall_back(
    registry: str,
    settings: dict,  # type: ignore[type-arg]
    compiled: dict,  # type: ignore[type-arg]
    places: list,  # type: ignore[type-arg]
    status: dsl.PipelineTaskFinalStatus,
) -> None:
    """Take the next accelerator of several, or else the next of `places`, regions with their buckets.

    The `registry` comes from the environment. `settings` may have another, such as {"registry": "gs://b/models"}.
    `compiled` has the parameters that the pipeline was compiled with.
    """
    from lifecycle.runs import fall_back
    from trainer.errors import reported

    with reported():
        fall_back(settings.get("registry", registry), compiled, places, status)
