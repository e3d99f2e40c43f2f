"""Task that predicts the images of a shard, or of several."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def predict_shard(output_dir: str, task: int, max_bad_share: float) -> None:
    """Predict what is left of the shards of a task that `plan_predictions` has returned."""
    from trainer.batch import BatchConfig, predict_task
    from trainer.errors import reported

    with reported():
        predict_task(output_dir, task, BatchConfig(max_bad_share=max_bad_share))
