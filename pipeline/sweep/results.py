"""What a sweep found: its trials, on the terminal, as a page, and as the settings of the next run."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from lifecycle.runs import STEPS
from pipeline.sweep.space import Categorical, Numerical, Sweep, assignments, text_of
from trainer.errors import FailedError, check
from trainer.evaluation import ScoredDataset
from trainer.models import Provenance
from trainer.settings import Value
from trainer.texts import format_duration

COMPLETE, PRUNED, FAILED, RUNNING = "complete", "pruned", "failed", "running"
UNTESTED = (
    "It was chosen on the validation images, so expect it to be a little worse on others. It was not scored on a "
    "test set: {}."
)
NO_TEST_SET = "[parameters] of the sweep names no test_dataset"
REPORT = "sweep.html"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training of a sweep."""

    number: int
    """From 1, in the order of their starts."""
    values: Mapping[str, Value]
    """Its values of the searched parameters."""
    state: str
    losses: Mapping[int, float]
    """The validation loss after each epoch, such as `{1: 0.9, 2: 0.7}`. On Vertex AI, epochs may be missing."""
    seconds: float
    reason: str = ""
    """Why it failed."""

    @property
    def loss(self) -> float:
        """The lowest validation loss. The weights of this epoch become the model. Infinite if there is none."""
        return min(self.losses.values(), default=math.inf)


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The complete trial with the lowest validation loss. None if no trial is complete."""
    return min((each for each in trials if each.state == COMPLETE), key=lambda each: each.loss, default=None)


def score_sentence(scores: ScoredDataset | None, absent: str = NO_TEST_SET) -> str:
    """How the best trial does on a test set, such as `On the 9 images of the test set, its KLD is 0.4000 ...`.

    Args:
        scores: the results on the test set. None if it was not scored.
        absent: why it was not scored.
    """
    if scores is None:
        return UNTESTED.format(absent)
    from trainer.evaluation import Role
    from trainer.metrics import LEAD, METRICS

    models = scores.models
    return (
        f"It was chosen on the validation images. On the {scores.n_images} images of the test set, its "
        f"{METRICS[LEAD].label} is {models[Role.CANDIDATE][LEAD]:.4f} "
        f"(centre bias: {models[Role.CENTER_BIAS][LEAD]:.4f})."
    )


def publish(sweep: Sweep, trials: Sequence[Trial], folder: pathlib.Path, tested: str) -> None:
    """Print the table of trials and the command of the next run, and write the page."""
    from rich.console import Console
    from rich.text import Text

    write_page(sweep, trials, folder, tested)
    console, best = Console(), best_of(trials)
    table = _table(sweep, trials, best)
    # With all of its columns: a narrow terminal wraps its lines, where rich would cut them.
    needed = console.measure(table, options=console.options.update(max_width=1000)).maximum
    Console(width=max(console.width, needed)).print(table)
    lines = [*(f"Note:     {notice}" for notice in _notices(sweep)), f"Report:   {folder / REPORT}"]
    if best:
        lines = [
            f"Best:     {' '.join(assignments(best.values))}",
            f"          {_gain(sweep, trials, best)}",
            f"          {tested}",
            *lines,
            f"Next run: {sweep.next_run(best.values)}",
        ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def write_page(sweep: Sweep, trials: Sequence[Trial], folder: pathlib.Path, tested: str) -> None:
    """Write the page of the trials that there are. `tested` is the `score_sentence` of the best."""
    from trainer.reports import write_sweep

    best = best_of(trials)
    write_sweep(
        folder / REPORT,
        name=sweep.name,
        data=sweep.data_text,
        training=STEPS[sweep.step],
        searched={name: _form(form) for name, form in sweep.search.items()},
        trials=[
            {**dataclasses.asdict(each), "loss": each.loss, "texts": _texts(each), "is_best": each is best}
            for each in trials
        ],
        sentences=[_gain(sweep, trials, best), tested] if best else [],
        assignments=assignments(best.values) if best else [],
        command=sweep.next_run(best.values) if best else "",
        notices=_notices(sweep),
    )


def _notices(sweep: Sweep) -> list[str]:
    """Notices for readers of the losses."""
    source = sweep.shared.data[sweep.step].source
    return [notice] if (notice := Provenance({"source": source}).scores_notice()) else []


def check_found(trials: Sequence[Trial]) -> None:
    """Raise `UserError` if no trial is complete."""
    check(
        best_of(trials) is not None,
        f"none of the {len(trials)} trials is complete, so there are no best settings",
        FailedError,
    )


def _form(form: Numerical | Categorical) -> dict[str, Any]:
    """A range or a list as `write_sweep` takes it."""
    choices = form.values if isinstance(form, Categorical) else ()
    texts = [text_of(value).rpartition("/")[2] for value in choices]
    return {
        "text": str(form),
        "choices": choices,
        "texts": texts,
        "is_log": isinstance(form, Numerical) and form.log,
    }


def _gain(sweep: Sweep, trials: Sequence[Trial], best: Trial) -> str:
    """The loss of the best trial, and of the settings without the sweep if a trial had them.

    Example: `The validation loss of trial 2 is 0.5000, ...`.
    """
    present = next((each for each in trials if each.values == sweep.present() and each.losses), None)
    if present is best:
        return (
            f"The validation loss of trial {best.number} is {best.loss:.4f}. These are the settings as they were."
        )
    others = (
        f" With the settings as they were (trial {present.number}) it is {present.loss:.4f}." if present else ""
    )
    return f"The validation loss of trial {best.number} is {best.loss:.4f}{others}."


def _texts(trial: Trial) -> dict[str, str]:
    return {
        name: f"{value:.3g}" if isinstance(value, float) else text_of(value)
        for name, value in trial.values.items()
    }


def _table(sweep: Sweep, trials: Sequence[Trial], best: Trial | None) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("trial", *sweep.search, "epochs", "validation loss", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column()
    for each in trials:
        texts = _texts(each)
        table.add_row(
            str(each.number),
            *(texts.get(name, "") for name in sweep.search),
            str(max(each.losses, default=0)),
            f"{each.loss:.4f}" if each.losses else "",
            format_duration(each.seconds),
            "best" if each is best else each.state if each.state != COMPLETE else "",
        )
    return table
