"""Task that makes the results of a training job its outputs."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def collect_training(
    gcp_resources: str,
    workspace: dsl.Input[dsl.Artifact],
    model: dsl.Output[dsl.Model],
    curve: dsl.Output[dsl.HTML],
) -> str:
    """Use the model where the job `gcp_resources` wrote it, without a copy, and return its URI."""
    from lifecycle.machines import MODEL_FOLDER, read_model_config
    from trainer.errors import reported
    from trainer.reports import write_curve

    with reported():
        config = read_model_config(workspace.path, gcp_resources)
        model.uri = f"{workspace.uri}/{MODEL_FOLDER}"
        write_curve(model.path, curve.path)
        model.metadata.update({key: config[key] for key in ("dataset", "best_epoch", "valid_loss")})
        return str(model.uri)
