"""Task that compares the fetched data with the data of the current default, before anything is trained."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def check_data(
    platform: str,
    location: str,
    settings: dict,  # type: ignore[type-arg]
    base_training: dict,  # type: ignore[type-arg]
    finetune_training: dict,  # type: ignore[type-arg]
    evaluation: dict,  # type: ignore[type-arg]
    model_name: str,
    registry: str,
    base_data: dsl.Input[dsl.Dataset],
    finetune_data: dsl.Input[dsl.Dataset],
    test_data: dsl.Input[dsl.Dataset],
    report: dsl.Output[dsl.HTML],
) -> NamedTuple("Outputs", [("warnings", list), ("questions", list)]):  # type: ignore[valid-type]
    """Ask the current default about the data, and write the report.

    `questions` are the `warnings` that hold a promotion. Nothing has been trained yet, so the task fails if

    - there are too few images or observers,
    - there are questions, with `data_gate=strict`,
    - a training does not fit its data,
    - the gate cannot be measured on the data. Example: `gate=nss` needs fixations.
    """
    from lifecycle.machines import Target, check_trainings
    from lifecycle.registry import DataGate, DataGateConfig, fetched_of
    from trainer.errors import reported
    from trainer.evaluation import EvaluateConfig
    from trainer.reports import write_data_comparison
    from trainer.settings import configs_of

    with reported():
        (config,) = configs_of(settings, DataGateConfig)
        fetched = fetched_of({"base": base_data.path, "finetune": finetune_data.path, "test": test_data.path})
        trainings = {"base": base_training, "finetune": finetune_training}
        check_trainings(trainings, fetched, Target(platform, location, ""))
        (evaluated,) = configs_of(evaluation, EvaluateConfig)
        gate = DataGate(config, evaluated, registry, model_name, fetched)
        gate.check_measurable()
        compared = gate.compare()
        write_data_comparison(compared, report.path)
        print(gate.what_could_be_found())
        return gate.require(compared)
