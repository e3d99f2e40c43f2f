"""Task that reads the current state of the sources of a training step, or of the test set."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def fingerprint(
    dataset: str,
    source: str,
    private_sources: bool,
    base_model_uri: str,
    registry: str,
    evaluate_base: bool,
    initial_weights: str,
) -> NamedTuple("Outputs", [("data", str), ("model", str), ("weights", str), ("base_model", str)]):  # type: ignore[valid-type]
    """Digests of the dataset, of the model that replaces base training, and of the initial weights.

    `base_model` is where that model is now: a name of the registry such as msinet@default may mean another later.
    A digest is empty if its input is not used, such as a test set without a name, or if the initial weights are
    not a file. Reads names, sizes and checksums, and downloads only the weights of a model on Cloud Storage.
    """
    from pipeline.registry.register import resolve_base_model
    from trainer.data import fetch
    from trainer.errors import reported
    from trainer.models import weight_sources

    with reported():
        base_model = resolve_base_model(base_model_uri, registry)
        model = weight_sources.fingerprint(base_model) if base_model else ""
        weights = "" if base_model_uri else weight_sources.fingerprint_of_initial(initial_weights)
        is_replaced = base_model_uri and not evaluate_base
        data = fetch.fingerprint(dataset, source, private_sources) if dataset and not is_replaced else ""
        unused = "not needed, because base_model_uri replaces base training"
        found = "its source was found" if data else unused
        print(f"{fetch.prepared_name(dataset, source)}: {found}" if dataset else "there is no test set")
        for place, digest in ((base_model, model), (initial_weights, weights)):
            if digest:
                print(f"{place}: found")
        return data, model, weights, base_model
