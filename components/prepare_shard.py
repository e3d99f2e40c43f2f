"""Task that prepares the images of one shard."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def prepare_shard(output_dir: str, shard: int) -> None:
    """Prepare a shard of the plan that `decide_dataset` has written."""
    from trainer.data import PreparedData
    from trainer.errors import reported
    from trainer.places import stored_at

    with reported():
        PreparedData(stored_at(output_dir).mounted).prepare_shard(shard)
