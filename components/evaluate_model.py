"""Task that compares the candidate with the current default, the centre bias and a uniform map."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def evaluate_model(
    evaluation: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    decision: dsl.Output[dsl.Markdown],
    report: dsl.Output[dsl.HTML],
    model: dsl.Input[dsl.Model],
    finetune_data: dsl.Input[dsl.Dataset],
    base_data: dsl.Input[dsl.Dataset] = None,
    test_data: dsl.Input[dsl.Dataset] = None,
    settings: dict = {},  # type: ignore[type-arg]  # noqa: B006
    evaluate_base: bool = False,
    data_warnings: list = [],  # type: ignore[type-arg]  # noqa: B006
    questions: list = [],  # type: ignore[type-arg]  # noqa: B006
    model_name: str = "msinet",
    registry: str = "",
    run: str = "",
) -> None:
    """Evaluate a model on held-out images. Fail if it is worse than a map that is the same for all images.

    Args:
        model: The model, from train-msinet.
        finetune_data: Prepared data. Its validation images decide.
        base_data: Prepared data of the training before, if there was one.
        test_data: Prepared data of a test set.
        settings: Settings of the gate as a JSON object, such as {"gate": "cc"}.
        evaluate_base: Whether to evaluate on the validation images of base_data too.
        data_warnings: Sentences about the data, for the report.
        questions: The data_warnings that hold a promotion.
        model_name: Name of the model in the registry.
        registry: Registry, as gs://, vertex:// or a folder. The model is compared with its default version.
        run: Name of the run, for the report.

    Returns:
        evaluation: All scores, and the scores of each image.
        metrics: Mean scores of the model and of the current default, and the gain with its interval.
        decision: Whether the model becomes the default, and why.
        report: The report, with pictures.
    """
    import pathlib

    from lifecycle.registry import evaluate_candidate, fetched_of
    from trainer.errors import reported
    from trainer.evaluation import EvaluateConfig
    from trainer.reports import comparable_scores, decision_page, write_report
    from trainer.settings import configs_of

    with reported():
        (config,) = configs_of(settings, EvaluateConfig)
        tested = fetched_of({"test": test_data.path}).values() if test_data else ()
        data = [finetune_data.path, *([base_data.path] if evaluate_base else []), *tested]
        trained_on = fetched_of({"base": base_data.path}).values() if base_data else ()
        scores, champion = evaluate_candidate(
            *(config, registry, model_name, model.path, data, evaluation.path, trained_on, run),
            data_warnings=data_warnings,
            questions=questions,
        )
        write_report(evaluation.path, report.path)
        for name, value in comparable_scores(scores).items():
            metrics.log_metric(name, value)
        pathlib.Path(decision.path).write_text(decision_page(scores))
        evaluation.metadata.update({"champion": champion, "promote": scores.promote})
        scores.require_baseline()
