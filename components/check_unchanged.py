"""Task that finds out whether the default or the challenger already is the model that this run would make."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def check_unchanged(
    skip_unchanged: bool,
    model_name: str,
    registry: str,
    columns: str,
    initial_weights: str,
    fingerprints: list,  # type: ignore[type-arg]
    settings: str,
) -> str:
    """Return a digest of what the run makes its model of, or an empty text if that is not new.

    `fingerprints` are those of the datasets, the base model and the initial weights; `settings` has all other
    parameters that a model depends on. Without `skip_unchanged`, every run counts as new.
    """
    from pipeline.registry.register import connect, digest_of_inputs, version_made_of
    from trainer.errors import reported

    with reported():
        inputs = digest_of_inputs(settings, columns, initial_weights, *fingerprints)
        version = version_made_of(inputs, connect(registry), model_name) if skip_unchanged else None
        if version:
            print(f"unchanged: version {version.number} of {model_name} already is this model")
            return ""
        return inputs
