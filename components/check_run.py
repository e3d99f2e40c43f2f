"""First task of a run: find the mistakes that can be found before data is fetched, and whether anything is new."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def check_run(
    platform: str,
    location: str,
    image_pattern: str,
    run: str,
    compiled: dict,  # type: ignore[type-arg]
    accelerator: str,
    provisioning: str,
    base_dataset: str,
    base_source: str,
    base_image_size: str,
    base_batch_size: int,
    base_model_uri: str,
    finetune_dataset: str,
    finetune_source: str,
    finetune_image_size: str,
    finetune_batch_size: int,
    test_dataset: str,
    test_source: str,
    test_share: float,
    gate: str,
    gate_on: str,
    model_name: str,
    recipe: str,
    seed: int,
    settings: dict,  # type: ignore[type-arg]
) -> NamedTuple(  # type: ignore[valid-type]
    "Outputs",
    [
        ("Output", str),
        ("registry", str),
        ("checkpoint_dir", str),
        ("data", dict),
        ("data_gate", dict),
        ("base_training", dict),
        ("finetune_training", dict),
        ("evaluation", dict),
        ("evaluate_base", bool),
        ("base_model", str),
        ("base_model_digest", str),
        ("base_version", str),
        ("weights_digest", str),
        ("base_digest", str),
        ("finetune_digest", str),
        ("test_digest", str),
        ("endpoint", str),
        ("traffic", int),
    ],
):
    """Check the parameters and all places that the run reads or writes. Fail with all mistakes at once.

    `compiled` has the parameters that the pipeline was compiled with. `settings` overrides them, and has what the
    form does not show, such as {"finetune_epochs": 5}. Output is empty if the registry already has the model of
    this run.
    """
    arguments = dict(locals())
    from lifecycle.machines import Target
    from lifecycle.runs import check_run as check_before
    from trainer.errors import reported

    run = arguments.pop("run")
    target = Target(*(arguments.pop(name) for name in ("platform", "location", "image_pattern")))
    with reported():
        return check_before(arguments, arguments.pop("compiled"), target, run)
