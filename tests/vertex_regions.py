"""Two environments of the project of tests/vertex.py, each in a region, and the last task of a run in them."""

import dataclasses
import json

from kfp.dsl.executor import Executor

from components.fall_back import fall_back
from tests.vertex import ELSEWHERE, SERVICE_ACCOUNT, write_config
from tests.vertex_project import CALLER, DEPLOYER_ON_PROJECT, PIPELINE_ON_PROJECT, grant

NO_MACHINE = "Resources are insufficient in region: us-central1. Please try a different region or accelerators."
EU_BUCKET = "eu-runs"
SEVERAL = ("accelerator=v5e-1,l4", "base_batch_size=0", "finetune_batch_size=0")
"""Arguments with two accelerators. Region ELSEWHERE has the second alone."""


def two_environments(vertex, address, **changes):
    """`prod` with a registry of its own, and `prod-eu` in the region ELSEWHERE, whose bucket is there."""
    shared = {**vertex.environment.parameters, "registry": address}
    prod = dataclasses.replace(vertex.environment, parameters=shared)
    fields = {"name": "prod-eu", "location": ELSEWHERE, "bucket": f"gs://{EU_BUCKET}/msinet", **changes}
    project = vertex.state["project"]
    project.buckets[EU_BUCKET] = {"location": ELSEWHERE.upper(), "objects": []}
    for member, roles in ((f"user:{CALLER}", DEPLOYER_ON_PROJECT), (SERVICE_ACCOUNT, PIPELINE_ON_PROJECT)):
        kind = member if ":" in member else f"serviceAccount:{member}"
        grant(project, kind, EU_BUCKET, roles, "roles/artifactregistry.writer")
    return prod, dataclasses.replace(prod, **fields)


def written(environments, folder):
    """The environments as files, in the form that --env takes for several."""
    return ",".join(write_config(each, folder) for each in environments)


def without_machine(task):
    """The course of a run whose task gets no machine."""
    return [("FAILED", {"check-run": "SUCCEEDED", task: ("FAILED", NO_MACHINE)})]


def last_task(vertex, run, folder, state="FAILED"):
    """Run the last task of a run, with what its compiled pipeline hands it, as Vertex AI does."""
    job = vertex.kept("runs")[run]["job"]
    inputs = job["pipelineSpec"]["root"]["dag"]["tasks"]["fall-back"]["inputs"]["parameters"]
    constants = {
        name: value["runtimeValue"]["constant"] for name, value in inputs.items() if "runtimeValue" in value
    }
    settings = job["runtimeConfig"]["parameterValues"].get("settings", {})
    status = {"state": state, "pipelineTaskName": "exit-handler-1", "pipelineJobResourceName": job["name"]}
    values = {**constants, "settings": settings, "status": {**status, "error": {}}}
    assert set(values) == set(inputs)
    message = {"inputs": {"parameterValues": values}, "outputs": {"outputFile": str(folder / "out.json")}}
    Executor(json.loads(json.dumps(message)), fall_back.python_func).execute()


def regions(vertex):
    """The region of each run that was started."""
    return [request.path.split("/")[5] for request in vertex.sent("POST", "/pipelineJobs")]
