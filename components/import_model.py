"""A model that was trained elsewhere, in place of base training."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def import_model(
    base_model_uri: str, dataset: str, image_size: str, fingerprint: str, model: dsl.Output[dsl.Model]
) -> str:
    """Make a model of the weights that `fingerprint` is the digest of, by which caching goes; its URI."""
    from trainer.errors import check, reported
    from trainer.models.start import import_checked

    with reported():
        imported = import_checked(base_model_uri, model.path, dataset, image_size)
        print(imported.report)
        changed = f"{base_model_uri} changed while it was imported; run the pipeline again"
        check(imported.fingerprint == fingerprint, changed)
        model.metadata.update({"source": base_model_uri, "fingerprint": fingerprint})
        return str(model.uri)
