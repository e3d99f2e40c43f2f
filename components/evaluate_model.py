"""Task that compares the candidate with the current default, the centre bias and a uniform map."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def evaluate_model(
    evaluate_base: bool,
    settings: dict,  # type: ignore[type-arg]
    data_warnings: list,  # type: ignore[type-arg]
    model_name: str,
    registry: str,
    run: str,
    base_data: dsl.Input[dsl.Dataset],
    finetune_data: dsl.Input[dsl.Dataset],
    test_data: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
) -> None:
    """Evaluate on held-out images and write the report; fail if the candidate is below the centre bias."""
    from pipeline.registry.register import compare, fetched_of
    from trainer.config import EvaluateConfig, configs_of
    from trainer.errors import reported
    from trainer.evaluation.gate import require_baseline
    from trainer.reports.report import write_report

    with reported():
        (config,) = configs_of(settings, EvaluateConfig)
        tested = fetched_of({"test": test_data.path}).values()
        data = [finetune_data.path, *([base_data.path] if evaluate_base else []), *tested]
        trained_on = fetched_of({"base": base_data.path}).values()
        scores, champion = compare(
            *(config, registry, model_name, model.path, data, evaluation.path, trained_on, run),
            data_warnings=data_warnings,
        )
        write_report(evaluation.path, report.path)
        for metric, value in scores["datasets"][scores["decides"]]["models"]["candidate"].items():
            metrics.log_metric(metric, value)
        evaluation.metadata.update({"champion": champion, "promote": scores["promote"]})
        require_baseline(scores)
