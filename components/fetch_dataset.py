"""Task that fetches, checks, resizes and shards a dataset."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fetch_dataset(
    prepared: dsl.Output[dsl.Dataset],
    preview: dsl.Output[dsl.HTML],
    dataset: str,
    source: str = "",
    image_size: str = "",
    settings: dict = {},  # type: ignore[type-arg]  # noqa: B006
    test_of: str = "",
    fingerprint: str = "any",
) -> None:
    """Fetch a dataset, and prepare it for training.

    The source must have the digest `fingerprint`, if it is not `any`; nothing is fetched if it is empty. With
    `test_of`, the dataset that is trained on, this one is a test set. `settings` has those of
    `trainer.config.FetchConfig` that are no inputs here.
    """
    from trainer.config import FetchConfig, configs_of
    from trainer.data import fetch
    from trainer.errors import check, reported
    from trainer.reports.report import write_preview

    with reported():
        if not fingerprint:
            fetch.leave_out(prepared.path, preview.path)
            return
        place = {"dataset": dataset, "source": source, "image_size": image_size}
        (config,) = configs_of({**settings, **place}, FetchConfig)
        manifest = fetch.fetch_dataset(config, prepared.path, test_of=test_of)
        check(
            fingerprint in ("any", manifest.fingerprint),
            f"the source of {manifest.dataset} changed while it was fetched; run the pipeline again",
        )
        write_preview(prepared.path, preview.path)
        prepared.metadata.update(
            {"dataset": manifest.dataset, "fingerprint": manifest.fingerprint, **manifest.counts}
        )
