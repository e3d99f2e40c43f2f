"""What is at the sources of a training step now."""

from typing import NamedTuple

from kfp import dsl

from pipeline.settings import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fingerprint(
    dataset: str,
    source: str,
    base_model_uri: str,
    evaluate_base: bool,
) -> NamedTuple("Outputs", [("data", str), ("model", str)]):  # type: ignore[valid-type]
    """Digests of the data set and of the model that takes the place of base training; empty for what is not used.

    Names, sizes and checksums are read, without fetching anything.
    """
    from trainer.data import fetch
    from trainer.errors import reported
    from trainer.published import weight_sources

    with reported():
        model = weight_sources.fingerprint(base_model_uri) if base_model_uri else ""
        data = "" if base_model_uri and not evaluate_base else fetch.fingerprint(dataset, source)
        print(f"{dataset}: {data or 'not needed, a model takes the place of base training'}")
        if model:
            print(f"{base_model_uri}: {model}")
        return data, model
