"""Training of MSI-Net as a task of anybody's pipeline. Our own pipeline plans the machines of a training first."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def train_msinet(
    model: dsl.Output[dsl.Model],
    curve: dsl.Output[dsl.HTML],
    dataset: dsl.Input[dsl.Dataset],
    base_model: dsl.Input[dsl.Model] = None,
    recipe: str = "paper",
    epochs: int = 10,
    batch_size: int = 0,
    learning_rate: float = 1e-5,
    precision: str = "auto",
    seed: int = 42,
    settings: dict = {},  # type: ignore[type-arg]  # noqa: B006
    checkpoint_dir: str = "",
) -> None:
    """Train MSI-Net, a network that predicts where people look, on the devices of the task's machine.

    Args:
        dataset: Prepared data, from fetch-dataset.
        base_model: Model to fine-tune. Without it, the training starts from ImageNet's encoder.
        recipe: Set of settings: paper, best or small.
        epochs: Passes over the training images.
        batch_size: Images in one training step. 0 for the default of the devices.
        learning_rate: Learning rate of a batch of one image.
        precision: float32, bfloat16, float16, or auto for what the devices are fast at.
        seed: Start of the random numbers.
        settings: Other settings of the training as a JSON object, such as {"flip": true}.
        checkpoint_dir: Folder or gs:// address that outlives the machine, where a task that is retried resumes.

    Returns:
        model: The trained model: its weights, its settings, and a SavedModel.
        curve: The learning curve.
    """
    from lifecycle.machines import checkpoint_folder
    from trainer.errors import reported
    from trainer.reports import write_curve
    from trainer.settings import configs_of
    from trainer.training import TrainConfig, train_checked

    with reported():
        typed = {"recipe": recipe, "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
        (config,) = configs_of({**typed, "precision": precision, "seed": seed, **settings}, TrainConfig)
        step = "finetune" if base_model else "base"
        summary = train_checked(
            config.with_recipe(fine_tuning=step == "finetune"),
            dataset=dataset.path,
            output=model.path,
            checkpoints=checkpoint_folder(checkpoint_dir, step, uri=model.uri, path=model.path),
            base_model=base_model.path if base_model else None,
        )
        write_curve(model.path, curve.path)
        model.metadata.update({key: summary[key] for key in ("dataset", "best_epoch", "valid_loss")})
