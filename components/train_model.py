"""Task that trains a model."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def train_model(
    model: dsl.Output[dsl.Model],
    curve: dsl.Output[dsl.HTML],
    dataset: dsl.Input[dsl.Dataset],
    base_model: dsl.Input[dsl.Model] = None,
    settings: dict = {},  # type: ignore[type-arg]  # noqa: B006
    accelerator: str = "",
    checkpoint_dir: str = "",
    initial_weights_fingerprint: str = "",
    step: str = "finetune",
) -> str:
    """Train on `dataset`, from the weights of `base_model` if there is one, and return the model's URI.

    `settings` are fields of `trainer.training.settings.TrainConfig`, such as {"epochs": 10}. Checkpoints are below
    the folder `step` of `checkpoint_dir`, or beside the model if `checkpoint_dir` is empty. A base model has no
    SavedModel: it is only fine-tuned.
    """
    from lifecycle.machines import checkpoint_folder
    from trainer.errors import reported
    from trainer.reports import write_curve
    from trainer.settings import configs_of
    from trainer.training import TrainConfig, train_checked

    with reported():
        (config,) = configs_of(settings, TrainConfig)
        summary = train_checked(
            config,
            dataset=dataset.path,
            output=model.path,
            checkpoints=checkpoint_folder(checkpoint_dir, step, uri=model.uri, path=model.path),
            base_model=base_model.path if base_model else None,
            accelerator=accelerator,
            initial_weights_fingerprint=initial_weights_fingerprint,
            saved_model=step != "base",
        )
        write_curve(model.path, curve.path)
        model.metadata.update({key: summary[key] for key in ("dataset", "best_epoch", "valid_loss")})
        return str(model.uri)
