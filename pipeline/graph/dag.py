"""The DAG of the pipeline. It is the same on all targets except for the tasks of a training step.

check_run                                                   all that can be checked, never cached
     |                                                      all below is a branch. It is not taken if the
     |_____________________ _________________________       registry already has this model
     |                     |                         |
fetch_dataset         fetch_dataset             fetch_dataset       base, fine-tuning and test: cached by digests
     |_____________________|_________________________|              of the sources, nothing if not needed
     |                     |                         |
     |               check_data                      |              compares with the data of the current default
     |                     |                         |
plan, base training        |                         |              a training step, or
     |_____________________|                         |              import_model if base_model_uri is set
     |                                               |
plan, fine-tuning                                    |
     |_______________________________________________|
     |
evaluate_model                                                      compares with the current default and the
     |                                                              centre bias
upload_model                                                        adds a version, the default only if it is
     |                                                              better
deploy_version                                                      if it is, and there is an endpoint
     |
report_end                                                          only with `webhook` in the environment: after
                                                                    all others, failed or not
fall_back                                                           only with several environments or accelerators
                                                                    in the environment, likewise

The tasks of a training step:

local       plan_training -> train_model
kubeflow    plan_training -> train_model, on the node and in the image that the plan selects. A branch for the base
            model ends with end_branch
vertex      plan_training -> CustomTrainingJobOp -> collect_training

The plan hands all settings of the training on as one value.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel

from components import IMAGE, NEVER_CACHED
from components.check_data import check_data
from components.check_run import check_run
from components.collect_training import collect_training
from components.deploy_version import deploy_version
from components.end_branch import end_branch
from components.evaluate_model import evaluate_model
from components.fall_back import fall_back
from components.fetch_dataset import fetch_dataset
from components.import_model import import_model
from components.plan_training import plan_training
from components.report_end import report_end
from components.train_model import train_model
from components.upload_model import upload_model
from lifecycle.runs import CONSOLE_FIELDS, SETTINGS, STEPS, WEBHOOK_VARIABLE
from pipeline.graph.environment import KUBERNETES, PIPELINE_NAME, TARGET_NAMES, Environment, layered_values
from pipeline.graph.form import docstring, signature
from trainer.settings import Value

SUMMARY = "Train MSI-Net on one dataset, fine-tune it on another, evaluate it and register it."
SIZES = {
    "fetch-dataset": ("8", "16G"),
    "check-data": ("8", "16G"),
    "evaluate-model": ("8", "32G"),
    "collect-training": ("2", "8G"),
    "import-model": ("2", "8G"),
}
"""Task -> cores and memory, if the smallest machine is not enough for SALICON's 15,000 images."""
RETRIES = {
    "check-run": 2,
    "fetch-dataset": 2,
    "plan-training": 2,
    "train-model": 6,
    "custom-training-job": 3,
    "collect-training": 2,
    "import-model": 2,
    "upload-model": 2,
    "fall-back": 2,
}
"""Task -> how often it is retried, except on this machine.

- upload_model may run twice, because a registry recognises a run that it already has.
- fall_back may, because the id of the next run follows from the id of this one.
- The check of the data, the evaluation and the deployment are not retried. They fail on purpose.
- A job of Vertex AI is launched again only if the service refused it (docs/adr/0006). Once there is a job, the
  service restarts it: on Spot machines six times, as often as a training on Kubeflow.
"""
MAX_RETRY_TIME = {"kubeflow": "7d"}
"""Target -> for how long after its start a task may be retried, if not for kfp's hour.

It must be longer than any training. Argo Workflows retries no task that fails later, and stops a retry when this
time is over (workflow/controller/operator.go:1028-1095 of v4.0.5).
"""
REGION = "{{$.pipeline_google_cloud_location}}"
"""Stands for the region of a run on Vertex AI.

Components of Google have it as their default (google-cloud-pipeline-components 2.22.0, _placeholders.py, line 22).
"""
RUN = {"kubeflow": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
"""Target -> what identifies a run, if not its name.

On Kubeflow people choose the name, and may choose it twice (kubeflow/pipelines 2.17.0,
backend/src/v2/driver/resolve.go:437). A registry has each run once.
"""


@dataclasses.dataclass(frozen=True)
class TrainingStepInputs:
    """The inputs of a training step, the same on every target."""

    name: str
    """base or finetune."""
    settings: PipelineChannel
    checkpoint_dir: PipelineChannel
    initial_weights_fingerprint: PipelineChannel | str
    """Digest of the weights. Caching needs it, because files can change behind the same address."""
    dataset: PipelineChannel
    base_model_uri: PipelineChannel | str
    """URI of the model to fine-tune. Empty for base training."""
    data_check: dsl.PipelineTask
    """Task that ends before the plan starts, so that a mistake in any data is found before hours of training."""

    def plan(self, environment: Environment, cached: bool) -> dsl.PipelineTask:
        """The task that fits the settings to the data and plans the machines of the step."""
        task = plan_training(
            step=self.name,
            platform=environment.target,
            location=region_of(environment),
            image_pattern=environment.image_of("{}"),
            settings=self.settings,
            checkpoint_dir=self.checkpoint_dir,
            initial_weights_fingerprint=self.initial_weights_fingerprint,
            dataset=self.dataset,
            base_model_uri=self.base_model_uri,
        )
        task.after(self.data_check)
        return task.set_caching_options(cached).set_display_name(f"{STEPS[self.name]}: plan")

    def train(self, plan: dsl.PipelineTask, accelerator: PipelineChannel | str) -> dsl.PipelineTask:
        """The task that trains with the settings of `plan`.

        If `accelerator` is empty, it trains on the devices that it finds. They then tell what a batch size of 0
        and a precision of `auto` mean. Example: on an L4, `auto` is bfloat16.
        """
        start = {}  # kfp takes no None for an artifact
        if self.base_model_uri:
            named = named_model(uri=self.base_model_uri).set_display_name("Base model")
            start["base_model"] = named.output
        task = train_model(
            step=self.name,
            settings=plan.outputs["settings"],
            accelerator=accelerator,
            checkpoint_dir=self.checkpoint_dir,
            initial_weights_fingerprint=self.initial_weights_fingerprint,
            dataset=self.dataset,
            **start,
        )
        return task.set_display_name(STEPS[self.name])


TrainingStep = Callable[[TrainingStepInputs, Environment], dsl.PipelineTask]
"""Creates the tasks of one training step and returns the last. It has outputs `model` and `Output` (its URI)."""


def local(step: TrainingStepInputs, environment: Environment) -> dsl.PipelineTask:
    """One task on this machine."""
    # Not cached: a working copy's code changes under the same image name, so a cached model could be out of date.
    plan = step.plan(environment, cached=False)
    return step.train(plan, accelerator="").set_caching_options(False)


def kubeflow(step: TrainingStepInputs, environment: Environment) -> dsl.PipelineTask:
    """One task, on a node with the accelerator and in the image for it.

    A retry resumes from the checkpoints that an earlier pod has written outside of it (`checkpoint_folder`).
    """
    from kfp import kubernetes

    plan = step.plan(environment, cached=True)
    task = step.train(plan, plan.outputs["accelerator"]).set_caching_options(True)
    task.set_container_image(plan.outputs["image"])
    task.set_accelerator_type(plan.outputs["accelerator_type"])
    task.set_accelerator_limit(plan.outputs["accelerator_limit"])
    # No limit of cores: on a node of its own the pod may use all of them.
    task.set_cpu_request(plan.outputs["cpu"])
    task.set_memory_request(plan.outputs["memory"]).set_memory_limit(plan.outputs["memory"])
    kubernetes.add_node_selector_json(task, plan.outputs["node_selector"])
    kubernetes.add_toleration_json(task, plan.outputs["tolerations"])
    # A pod's own has 64 MB, too little for the GPUs of a machine to exchange gradients by NCCL.
    kubernetes.empty_dir_mount(task, "shared-memory", "/dev/shm", medium="Memory")  # noqa: S108
    return task


def vertex(step: TrainingStepInputs, environment: Environment) -> dsl.PipelineTask:
    """A custom job. It gets its machines at run time and writes its model to the workspace of the plan.

    All three tasks are cached, because the same image, data and settings give the same model. A cached plan names
    the workspace of an earlier run, where a job that failed resumes from its checkpoints.
    """
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    plan = step.plan(environment, cached=True)
    trained = CustomTrainingJobOp(
        display_name=f"msinet-{step.name}",
        location=region_of(environment),
        worker_pool_specs=plan.outputs["worker_pool_specs"],
        strategy=plan.outputs["strategy"],
        timeout=plan.outputs["timeout"],
        max_wait_duration=plan.outputs["max_wait_duration"],
        labels=plan.outputs["labels"],
        base_output_directory=plan.outputs["job_dir"],
        restart_job_on_worker_restart=plan.outputs["restart"],
        service_account=plan.outputs["service_account"],
        network=plan.outputs["network"],
        tensorboard=plan.outputs["tensorboard"],
        persistent_resource_id=plan.outputs["persistent_resource"],
    )
    trained.set_caching_options(True).set_display_name(STEPS[step.name])
    collected = collect_training(
        gcp_resources=trained.outputs["gcp_resources"], workspace=plan.outputs["workspace"]
    )
    collected.set_caching_options(True).set_display_name(f"{STEPS[step.name]}: model")
    return collected


TARGETS: dict[str, TrainingStep] = {"local": local, "vertex": vertex, "kubeflow": kubeflow}
assert tuple(TARGETS) == TARGET_NAMES


def build_pipeline(env: Environment) -> Any:
    """The pipeline for the target of `env`. Its parameters are the same on all targets.

    `env` also has the names of the images, the addresses to notify, and the defaults of parameters.
    """
    values = layered_values(env.derived, env.parameters)

    def pipeline(*channels: PipelineChannel) -> None:
        parameters = dict(zip((*CONSOLE_FIELDS, SETTINGS), channels, strict=True))
        run = RUN.get(env.target, dsl.PIPELINE_JOB_NAME_PLACEHOLDER)
        with _ending(env, parameters, values, run):
            # Constants, unlike parameters, are safe inside of a JSON object.
            run_check = check_run(
                platform=env.target,
                location=region_of(env),
                image_pattern=env.image_of("{}"),
                run=run,
                compiled=dict(values),
                **parameters,
            )
            run_check.set_display_name("Check")
            with dsl.If(run_check.outputs["Output"] != "", name="Anything new"):
                _train_and_register(env, parameters, run_check, run)
        _configure_tasks(env)

    pipeline.__signature__ = signature(values)  # type: ignore[attr-defined]
    pipeline.__doc__ = docstring(SUMMARY, env.location)
    return dsl.pipeline(pipeline, name=PIPELINE_NAME)


def region_of(env: Environment) -> str:
    """The region of a run, as a constant of the pipeline. With several environments, only the run knows it."""
    return REGION if env.further else env.location


def _train_and_register(
    env: Environment, parameters: Mapping[str, PipelineChannel], run_check: dsl.PipelineTask, run: str
) -> None:
    """The tasks of a run in which the task `run_check` has found something new."""
    fetch_base = fetch_dataset(
        dataset=parameters["base_dataset"],
        source=parameters["base_source"],
        image_size=parameters["base_image_size"],
        settings=run_check.outputs["data"],
        test_of="",
        fingerprint=run_check.outputs["base_digest"],
    )
    fetch_base.set_caching_options(True).set_display_name(f"{STEPS['base']}: data")
    fetch_finetune = fetch_dataset(
        dataset=parameters["finetune_dataset"],
        source=parameters["finetune_source"],
        image_size=parameters["finetune_image_size"],
        settings=run_check.outputs["data"],
        test_of="",
        fingerprint=run_check.outputs["finetune_digest"],
    )
    fetch_finetune.set_caching_options(True).set_display_name(f"{STEPS['finetune']}: data")
    fetch_test = fetch_dataset(
        dataset=parameters["test_dataset"],
        source=parameters["test_source"],
        image_size=parameters["finetune_image_size"],
        settings=run_check.outputs["data"],
        test_of=parameters["finetune_dataset"],
        fingerprint=run_check.outputs["test_digest"],
    )
    fetch_test.set_caching_options(True).set_display_name("Test set: data")

    data_check = check_data(
        platform=env.target,
        location=region_of(env),
        settings=run_check.outputs["data_gate"],
        base_training=run_check.outputs["base_training"],
        finetune_training=run_check.outputs["finetune_training"],
        evaluation=run_check.outputs["evaluation"],
        model_name=parameters["model_name"],
        registry=run_check.outputs["registry"],
        base_data=fetch_base.outputs["prepared"],
        finetune_data=fetch_finetune.outputs["prepared"],
        test_data=fetch_test.outputs["prepared"],
    )
    data_check.set_display_name("Data")

    finetune_inputs = TrainingStepInputs(
        name="finetune",
        settings=run_check.outputs["finetune_training"],
        checkpoint_dir=run_check.outputs["checkpoint_dir"],
        initial_weights_fingerprint="",  # it starts from the base model, so it reads no initial weights
        dataset=fetch_finetune.outputs["prepared"],
        base_model_uri=_base_model(env, parameters, run_check, fetch_base, data_check),
        data_check=data_check,
    )
    finetune = TARGETS[env.target](finetune_inputs, env)

    evaluate = evaluate_model(
        model=finetune.outputs["model"],
        base_data=fetch_base.outputs["prepared"],
        finetune_data=fetch_finetune.outputs["prepared"],
        test_data=fetch_test.outputs["prepared"],
        settings=run_check.outputs["evaluation"],
        evaluate_base=run_check.outputs["evaluate_base"],
        data_warnings=data_check.outputs["warnings"],
        questions=data_check.outputs["questions"],
        model_name=parameters["model_name"],
        registry=run_check.outputs["registry"],
        run=run,
    )
    evaluate.set_display_name("Evaluation")
    upload = upload_model(
        platform=env.target,
        model_name=parameters["model_name"],
        registry=run_check.outputs["registry"],
        run=run,
        inputs=run_check.outputs["Output"],
        endpoint=run_check.outputs["endpoint"],
        base_version=run_check.outputs["base_version"],
        model=finetune.outputs["model"],
        evaluation=evaluate.outputs["evaluation"],
        base_data=fetch_base.outputs["prepared"],
        finetune_data=fetch_finetune.outputs["prepared"],
        test_data=fetch_test.outputs["prepared"],
    )
    upload.set_display_name("Registration")
    with dsl.If(upload.outputs["Output"] != "", name="Deploy if default"):
        deploy = deploy_version(
            model_name=parameters["model_name"],
            registry=run_check.outputs["registry"],
            endpoint=upload.outputs["Output"],
            version=upload.outputs["version"],
            traffic=run_check.outputs["traffic"],
        )
        deploy.set_display_name("Deployment")


@contextlib.contextmanager
def _ending(
    env: Environment, parameters: Mapping[str, PipelineChannel], values: Mapping[str, Value], run: str
) -> Iterator[None]:
    """Context for all tasks. When they end, failed or not, people are told as `env` says, and a run may follow.

    `env.notify` gets Vertex AI's e-mail. It says the state, and no more. `env.webhook` gets our message, such as
    `msinet@3: promoted.` with the reason.

    A run that falls back by itself may start another (`Environment.places`). `values` are the parameters that the
    pipeline is compiled with.
    """
    ends, registry = [], str(values.get("registry", ""))
    if env.places:
        places = [place._asdict() for place in env.places]
        next_task = fall_back(
            registry=registry, settings=parameters[SETTINGS], compiled=dict(values), places=places
        )
        ends.append(next_task.set_display_name("Next run"))
    if env.webhook:
        in_pod = env.webhook.startswith(KUBERNETES)
        message_task = report_end(
            model_name=parameters["model_name"],
            registry=registry,
            settings=parameters[SETTINGS],
            run=run,
            webhook="" if in_pod else env.webhook,
            only_failures=env.webhook_on == "failure",
        )
        if in_pod:
            from kfp import kubernetes

            secret, key = env.webhook.removeprefix(KUBERNETES).split("/")
            # Optional: a pod without its secret would wait for it, and the run would not end.
            kubernetes.use_secret_as_env(message_task, secret, {key: WEBHOOK_VARIABLE}, optional=True)
        ends.append(message_task.set_display_name("Message"))
    if env.notify:
        from google_cloud_pipeline_components.v1.vertex_notification_email import VertexNotificationEmailOp

        ends.append(VertexNotificationEmailOp(recipients=list(env.notify)))
    if not ends:
        yield
        return
    with dsl.ExitHandler(ends[0], name="Run") as handler:
        yield
    for other in ends[1:]:  # kfp refuses an exit handler in another. This compiles to the same as an exit task
        other.after(handler).ignore_upstream_failure()


def _configure_tasks(env: Environment) -> None:
    """Set the image of our tasks and, except on this machine, the volume, size and retries of tasks.

    Disables the caching of NEVER_CACHED tasks, whatever their image.
    """
    for task in dsl.pipeline_context.Pipeline.get_default_pipeline().tasks.values():
        component = task.component_spec.name
        if component in NEVER_CACHED:
            task.set_caching_options(False)
        if task.container_spec is None:
            continue
        if task.container_spec.image == IMAGE:
            task.set_container_image(env.image)
        if env.target == "local":
            continue
        if component in SIZES:
            cores, memory = SIZES[component]
            task.set_cpu_limit(cores).set_memory_limit(memory)
        if env.volume_claim:  # on Kubeflow, where all tasks with a container are ours
            from kfp import kubernetes

            kubernetes.mount_pvc(task, pvc_name=env.volume_claim, mount_path=env.bucket)
        if component in RETRIES:
            retries, limit = RETRIES[component], MAX_RETRY_TIME.get(env.target)
            task.set_retry(retries, backoff_duration="60s", backoff_factor=2, backoff_max_duration=limit)


def _base_model(
    env: Environment,
    parameters: Mapping[str, PipelineChannel],
    run_check: dsl.PipelineTask,
    fetch_base: dsl.PipelineTask,
    data_check: dsl.PipelineTask,
) -> PipelineChannel:
    """The URI of the model to fine-tune: a model that the run trains, or the model that `base_model_uri` names.

    Tasks pass its URI, not the model: kfp.local cannot choose between artifacts, nor could Kubeflow's server
    before 2026 (docs/adr/0008).
    """

    def end(task: dsl.PipelineTask) -> PipelineChannel:
        if env.target != "kubeflow":
            return task.outputs["Output"]
        return end_branch(uri=task.outputs["Output"]).set_display_name("Base model: found").output

    with dsl.If(parameters["base_model_uri"] == "", name="Train base model"):
        base_inputs = TrainingStepInputs(
            name="base",
            settings=run_check.outputs["base_training"],
            checkpoint_dir=run_check.outputs["checkpoint_dir"],
            initial_weights_fingerprint=run_check.outputs["weights_digest"],
            dataset=fetch_base.outputs["prepared"],
            base_model_uri="",
            data_check=data_check,
        )
        trained = end(TARGETS[env.target](base_inputs, env))
    with dsl.Else(name="Import base model"):
        imported = import_model(
            base_model_uri=run_check.outputs["base_model"],
            dataset=parameters["base_dataset"],
            image_size=parameters["base_image_size"],
            fingerprint=run_check.outputs["base_model_digest"],
        )
        imported.set_caching_options(env.target != "local").set_display_name("Base model: import")
        named = end(imported)
    return dsl.OneOf(trained, named)


@dsl.pipeline(name="named-model")  # type: ignore[untyped-decorator]
def named_model(uri: str) -> dsl.Model:
    """The model at `uri`.

    It is a pipeline because Kubeflow's importer accepts its URI only from an input of the pipeline around it. The
    importer has no display name: Kubeflow would record it under that name, and other tasks would not find it.
    """
    # The same artifact is used again, so that an earlier fine-tuning from it is found in the cache.
    importer = dsl.importer(artifact_uri=uri, artifact_class=dsl.Model, reimport=False)
    return importer.set_caching_options(False).output
