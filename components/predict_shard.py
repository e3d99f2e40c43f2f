"""Task that predicts the images of one shard."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def predict_shard(output_dir: str, shard: int, max_bad_share: float) -> None:
    """Predict what is left of a shard that `plan_predictions` has written."""
    from trainer.batch import BatchConfig, predict_shard as predict
    from trainer.errors import reported

    with reported():
        predict(output_dir, shard, BatchConfig(max_bad_share=max_bad_share))
