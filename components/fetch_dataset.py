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
    """Fetch a dataset of images and of where people looked at them, and prepare it for training.

    Args:
        dataset: Name of the dataset: salicon, mit1003, cat2000, dutomron, pascals, osie, osie-mouse, crowd, fiwi,
            fixationadd1000, ueyes, or custom for recordings of your own.
        source: Its archive or folder at gs://, an archive at https://, or the word sample for generated pictures.
            Empty for the authors' own download.
        image_size: Input size of the network as height x width in pixels, such as 240x320. Empty for the size of
            the dataset.
        settings: Other settings of the data as a JSON object, such as {"max_examples": 100}.
        test_of: Name of the dataset that is trained on, if this one is its test set.
        fingerprint: Digest that the source must have, or any. If it is empty, nothing is fetched.

    Returns:
        prepared: The dataset, resized and split.
        preview: A page with some of its images.
    """
    import pathlib

    from trainer.data import FetchConfig, fetch_dataset
    from trainer.errors import ConflictError, check, reported
    from trainer.reports import write_preview, write_unneeded
    from trainer.settings import configs_of

    with reported():
        if not fingerprint:
            pathlib.Path(prepared.path).mkdir(parents=True, exist_ok=True)
            write_unneeded(preview.path)
            return
        place = {"dataset": dataset, "source": source, "image_size": image_size}
        (config,) = configs_of({**settings, **place}, FetchConfig)
        manifest = fetch_dataset(config, prepared.path, test_of=test_of)
        check(
            fingerprint in ("any", manifest.fingerprint),
            f"the source of {manifest.dataset} changed while it was fetched. Run the pipeline again",
            ConflictError,
        )
        write_preview(prepared.path, preview.path)
        prepared.metadata.update(
            {"dataset": manifest.dataset, "fingerprint": manifest.fingerprint, **manifest.counts}
        )
