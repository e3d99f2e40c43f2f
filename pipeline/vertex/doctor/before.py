"""What `submit` asks before it starts a run: whether the images exist, and whether the quota is sufficient.

A run without them costs hours: it fails when its data is prepared, or it waits for ever.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from components import IMAGE
from pipeline.graph.titles import NAME
from pipeline.plan.plan import TrainingPlan
from pipeline.vertex import checks
from pipeline.vertex.doctor import places, quota
from pipeline.vertex.doctor.api import Api
from pipeline.vertex.doctor.asking import THREADS, Ask, answers, ask
from pipeline.vertex.doctor.findings import MISSING
from pipeline.vertex.submit import Submission
from pipeline.vertex.template import Template
from trainer.errors import check


def refuse_missing(submission: Submission) -> None:
    """Raise `UserError` if something is missing without which our pipeline cannot run; the unknown passes."""
    chosen = Template(submission.job["pipelineSpec"])
    if chosen.name != NAME:
        return
    values = {**chosen.defaults(), **submission.job["runtimeConfig"]["parameterValues"]}
    plans = checks.plans(submission.environment, values)
    api = Api(submission.environment)
    with ThreadPoolExecutor(THREADS) as pool:
        asked = ask(pool, [*_about_images(api, chosen, plans), *quota.questions(api, plans)])
        for finding in answers(asked):
            check(finding.state != MISSING, f"{finding.text}: {finding.remedy}")


def _about_images(api: Api, chosen: Template, plans: Mapping[str, TrainingPlan]) -> Iterator[Ask]:
    """Of the tasks, and of the training jobs, whose names follow from those of the tasks."""
    executors = chosen.spec["deploymentSpec"]["executors"].values()
    names = {executor["container"]["image"] for executor in executors if "container" in executor}
    for task in sorted(name for name in names if IMAGE in name):
        for kind in dict.fromkeys(("cpu", *(plan.accelerator.image for plan in plans.values()))):
            name = task.replace(IMAGE, f"{IMAGE.removesuffix('cpu')}{kind}")
            yield f"image {name}", partial(places.check_image, api, name)
