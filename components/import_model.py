"""Task that imports a trained model instead of base training."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def import_model(
    base_model_uri: str, dataset: str, image_size: str, fingerprint: str, model: dsl.Output[dsl.Model]
) -> str:
    """Import the weights with the digest `fingerprint`, and return the model's URI.

    The digest is the key for caching.
    """
    from trainer.errors import ConflictError, check, reported
    from trainer.models import WeightSource

    with reported():
        imported = WeightSource(base_model_uri).import_to(model.path, dataset, image_size)
        print(imported.report)
        check(
            imported.fingerprint == fingerprint,
            f"{base_model_uri} changed while it was imported. Run the pipeline again",
            ConflictError,
        )
        model.metadata.update({"source": base_model_uri, "fingerprint": fingerprint})
        return str(model.uri)
