"""Groups runs in Vertex AI Experiments."""

import time
from collections.abc import Callable
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment
from pipeline.vertex import runs
from trainer.errors import UserError

CONTEXT_S = 60.0
"""How long after its start a run may take to be in the metadata store."""
POLL_S = 2.0


def ensure(environment: Environment) -> str:
    """Create the environment's experiment unless it is there; returns its full name, empty for none."""
    if not environment.experiment:
        return ""
    from google.cloud import aiplatform

    cloud.connect(environment)
    with cloud.reported_errors(f"experiment {environment.experiment}"):
        try:
            return str(aiplatform.Experiment.get_or_create(environment.experiment).resource_name)
        except ValueError as error:
            raise UserError(f"experiment {environment.experiment}: {error}; choose another name") from None


def add(environment: Environment, experiment: str, run: str, say: Callable[[str], None] = print) -> None:
    """Put a run into an experiment, by its full name. The run has started: what fails is said, and no error."""
    from google.cloud.aiplatform_v1 import MetadataServiceClient

    try:
        context = _context(environment, run)
        with cloud.reported_errors():
            # Adding twice adds once, so it may be tried again.
            cloud.client(MetadataServiceClient, environment).add_context_children(
                context=experiment,
                child_contexts=[context],
                retry=cloud.reading(),
                timeout=cloud.TIMEOUT_S,
            )
    except UserError as error:
        say(f"The run has started, but is not in experiment {environment.experiment}: {error}")


def _context(environment: Environment, run: str) -> str:
    """The run's context in the metadata store, which Vertex AI makes some time after the run has started."""
    deadline = time.monotonic() + CONTEXT_S
    while True:
        job: Any = runs.find(environment, run)
        if name := job.job_detail.pipeline_run_context.name:
            return str(name)
        if time.monotonic() > deadline or runs.state_of(job) in runs.STATUSES:
            raise UserError("Vertex AI has no metadata of it; add it in the console")
        time.sleep(POLL_S)
