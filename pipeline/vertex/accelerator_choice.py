"""Chooses one accelerator of several: the first that the region has with enough quota."""

from collections.abc import Mapping

from lifecycle.runs import PlannedRun, State, Values, ask_all, settle
from lifecycle.vertex import Api
from pipeline.graph import Environment
from trainer.errors import NotFoundError, UserError, check
from trainer.settings import Value


def choose_accelerators(environment: Environment, values: Mapping[str, Value]) -> tuple[dict[str, str], list[str]]:
    """For each parameter with several accelerators, the first that can be used. Its quota may be unknown.

    Example: with `accelerator` of `v5e-1,l4` and no quota of v5e, the choice is `{"accelerator": "l4"}`.

    Also returns a sentence about each that was passed over. Raises `UserError` if none is left.
    """
    chosen: dict[str, str] = {}
    sentences = []
    effective = Values(values).effective
    lists = {name: str(value).split(",") for name, value in effective.items() if name.endswith("accelerator")}
    for parameter, names in lists.items():
        reasons: dict[str, str] = {}
        for name in map(str.strip, names if len(names) > 1 else ()):
            if not (reason := _why_not(environment, {**values, **chosen, parameter: name}, name)):
                chosen[parameter] = name
                break
            reasons[name] = reason
        why = ", ".join(f"not {name}: {reason}" for name, reason in reasons.items())
        check(
            parameter in chosen or not reasons,
            f"{parameter} is {','.join(names)}, and none of them can be used: {why}",
            NotFoundError,
        )
        if reasons:
            sentences.append(f"{parameter} is {chosen[parameter]}, {why}")
    return chosen, sentences


def _why_not(environment: Environment, values: Mapping[str, Value], name: str) -> str:
    """Why the training steps on the accelerator `name` cannot run, such as a quota of 0. Empty if they can."""
    try:
        made = settle(values, "vertex", environment.location, given={}).plans
    except UserError as error:
        return str(error)
    plans = {step: plan for step, plan in made.items() if plan.accelerator.name == name}
    found = ask_all(PlannedRun("", plans).quotas, Api(environment))
    return ", ".join(finding.text for finding in found if finding.state == State.MISSING)
