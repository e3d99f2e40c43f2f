"""What is at a data set's source now."""

from kfp import dsl

from pipeline.settings import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fingerprint(dataset: str, source: str) -> str:
    """A digest of the names, sizes and checksums at the source, without fetching it."""
    from trainer import fetch
    from trainer.errors import reported

    with reported():
        digest = fetch.fingerprint(dataset, source)
        print(f"{dataset}: {digest}")
        return digest
