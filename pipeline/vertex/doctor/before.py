"""What `submit` and `schedule` ask first: whether the images exist, and whether the quota is sufficient.

A run without them fails only after its data is prepared, when Vertex AI refuses the training job.
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
from pipeline.vertex.submit import Planned
from pipeline.vertex.template import Template
from trainer.errors import check


def refuse_missing(planned: Planned) -> None:
    """Raise `UserError` if something is missing without which our pipeline cannot run; the unknown passes."""
    chosen = Template(planned.job["pipelineSpec"])
    if chosen.name != NAME:
        return
    values = {**chosen.defaults(), **planned.job["runtimeConfig"]["parameterValues"]}
    plans = checks.plans(planned.environment, values)
    api = Api(planned.environment)
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
