"""\
Measure the speed, memory and start of a training on accelerators of Vertex AI, or on this machine.

On each accelerator one custom job trains for --steps steps on images that it makes, at the image size, batch and
precision of a run: it reads and writes no data. Time and price are shown first, and `yes` starts the jobs (--yes
does not wait, and --dry-run stops there). An accelerator may be sold out, or your quota or the region may not have
it. It is named and does not stop the others. The exit status is then 1.

configs/measured.json keeps the results: `plan`, `submit` and the plan of a run prefer them to estimates at the
same accelerator, batch and precision, and scale them by pixels for other image sizes. Images that you build
afterwards have the file too. --target local measures this machine, which `plan` then shows below its table.
"""

import argparse
from collections.abc import Sequence

from lifecycle.machines import AcceleratorConfig, DataSize, Measurement, TrainingPlan
from pipeline.commands.parameter_flags import add_environment, confirmed
from pipeline.graph import compare_accelerators, load_environment
from pipeline.vertex import Benchmark, BenchmarkJob, measure_on_vertex
from trainer.data import FetchConfig
from trainer.errors import SettingError, check
from trainer.settings import Parser, add_settings, settings_of
from trainer.texts import format_duration
from trainer.training import Accelerator, Estimate, TrainConfig

HELP = "measure accelerators, or this machine, for better plans"
TARGETS = ("vertex", "local")
MACHINES = ("provisioning",)


def configure(parser: Parser) -> None:
    add_environment(parser)
    parser.add_argument("--target", default="vertex", choices=TARGETS, help="where to measure (default: vertex)")
    parser.add_argument("--accelerators", default="", help="accelerators of Vertex AI, such as l4,v5e-1,a100")
    parser.add_argument("--steps", type=int, default=100, help="steps to measure (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=0, help="images per step. 0 for the default of each accelerator"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what the jobs would cost, and start none")
    parser.add_argument("--yes", action="store_true", help="start the jobs without asking")
    add_settings(parser, FetchConfig, ("dataset", "image_size"))
    add_settings(parser, TrainConfig, ("precision", "accumulation"))
    add_settings(parser, AcceleratorConfig, MACHINES)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    training, data = (
        settings_of(TrainConfig, parsed),
        DataSize.of(settings_of(FetchConfig, parsed)),
    )
    check(parsed.steps >= 1, f"steps is {parsed.steps}. It must be at least 1", SettingError)
    if parsed.target == "local":
        check(
            not parsed.accelerators,
            "accelerators are for Vertex AI. --target local measures this machine",
            SettingError,
        )
        given = (training.batch_size, training.accumulation, training.precision, parsed.steps)
        here = Benchmark(data.image_size, *given)
        if parsed.dry_run:
            print(f"Here: python -m trainer benchmark {' '.join(here.flags)}")
            return 0
        _keep(here.run_here())
        return 0
    environment = load_environment(parsed.env)
    environment.require_target("vertex")
    names = [Accelerator.named(name.strip()).name for name in parsed.accelerators.split(",") if name.strip()]
    check(bool(names), "--accelerators is empty. Name some, such as l4,v5e-1,a100", SettingError)
    machines = {name: value for name, value in vars(parsed).items() if name in MACHINES}
    compared = compare_accelerators(machines, training, data, location=environment.location)
    plans = {name: made for name in names if isinstance(made := compared[name], TrainingPlan)}
    missing = {name: made for name in names if isinstance(made := compared[name], str)}
    jobs = [BenchmarkJob(made, parsed.steps) for made in plans.values()]
    for each in jobs:
        print(each)
    for name, reason in missing.items():
        print(f"{name}: {reason}")
    total = sum(each.most_usd for each in jobs)
    offer = f"{len(jobs)} custom jobs at the same time, up to {total:.2f} USD together."
    if parsed.dry_run:
        print(f"{offer} None was started.")
        return 0
    if not jobs or not confirmed(offer, parsed.yes, "No job is run."):
        return int(bool(missing))
    for name, outcome in measure_on_vertex(environment, jobs):
        if isinstance(outcome, Measurement):
            _keep(outcome, plans[name])
        else:
            missing[name] = outcome
            print(f"{name}: not measured: {outcome}", flush=True)
    return int(bool(missing))


def _keep(measurement: Measurement, estimated: TrainingPlan | None = None) -> None:
    """Keep and print a measurement, beside what the plan had said."""
    kept_in = measurement.keep()
    memory = measurement.memory_bytes
    before = ""
    if estimated:
        planned = Estimate(*(estimated.batch_size / seconds for seconds in reversed(estimated.step_seconds)))
        before = f" (planned {planned.text('{:.3g}'.format)})"
    print(
        f"{measurement.accelerator}: {measurement.images_per_s:.3g} images/s{before}, memory "
        f"{'unknown' if memory is None else f'{memory / 1e9:.1f} GB'}, first step after "
        f"{format_duration(measurement.start_s)}, kept in {kept_in}",
        flush=True,
    )
