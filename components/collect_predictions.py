"""Task that ends a batch prediction."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def collect_predictions(output_dir: str, summary: dsl.Output[dsl.Markdown]) -> None:
    """Check that every shard is done, and write the list of unread images and the sums."""
    import pathlib

    from trainer.batch import collect_job
    from trainer.errors import reported

    with reported():
        done = collect_job(output_dir)
        pathlib.Path(summary.path).write_text(f"{done}\n\nThe table is in {output_dir}/table.\n")
        print(done)
