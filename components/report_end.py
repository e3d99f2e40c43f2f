"""Task that says how a run ended, after all other tasks, failed or not."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def report_end(
    model_name: str,
    registry: str,
    settings: dict,  # type: ignore[type-arg]
    run: str,
    webhook: str,
    only_failures: bool,
    status: dsl.PipelineTaskFinalStatus,
) -> None:
    """Print how the run ended, and post it to the webhook. The secret `webhook` has its address.

    The `registry` comes from the environment. `settings` may have another, such as {"registry": "gs://b/models"}.
    """
    from lifecycle.runs import report_end

    report_end(model_name, settings.get("registry", registry), run, status, webhook, only_failures)
