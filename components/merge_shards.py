"""Task that makes a prepared dataset of its shards."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def merge_shards(output_dir: str, summary: dsl.Output[dsl.Markdown]) -> None:
    """Check that every shard is prepared, and make the dataset of them."""
    import pathlib

    from trainer.data import PreparedData
    from trainer.errors import reported
    from trainer.places import stored_at
    from trainer.reports import counts_text

    with reported():
        manifest = PreparedData(stored_at(output_dir).mounted).merge()
        done = f"{output_dir}: {counts_text(manifest.counts)} images of {manifest.dataset}"
        pathlib.Path(summary.path).write_text("\n\n".join([done, *manifest.notes]) + "\n")
        print(done)
