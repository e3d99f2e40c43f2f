"""Task that fetches, checks, resizes and shards a dataset."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fetch_dataset(
    dataset: str,
    source: str,
    image_size: str,
    allow_partial_data: bool,
    max_bad_share: float,
    private_sources: bool,
    max_examples: int,
    test_share: float,
    columns: str,
    coordinates: str,
    screen_size: str,
    image_on_screen: str,
    blur_px: float,
    pixels_per_degree: float,
    split: str,
    test_of: str,
    fingerprint: str,
    prepared: dsl.Output[dsl.Dataset],
    preview: dsl.Output[dsl.HTML],
) -> None:
    """Fetch the dataset whose digest is `fingerprint`, the key for caching; fetch nothing if it is empty.

    With `test_of`, the dataset that is trained on, this one is a test set.
    """
    from trainer.config import FetchConfig, config_of
    from trainer.data import fetch
    from trainer.errors import check, reported
    from trainer.reports.report import write_preview

    with reported():
        if not fingerprint:
            fetch.leave_out(prepared.path)
            return
        config = config_of(FetchConfig, locals())
        manifest = fetch.fetch_dataset(config, prepared.path, test_of=test_of)
        check(
            manifest.fingerprint == fingerprint,
            f"the source of {manifest.dataset} changed while it was fetched; run the pipeline again",
        )
        write_preview(prepared.path, preview.path)
        prepared.metadata.update({"dataset": manifest.dataset, "fingerprint": fingerprint, **manifest.counts})
