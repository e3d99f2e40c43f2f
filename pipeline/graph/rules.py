"""The rules of the backends: a compiled pipeline that breaks one is refused, or fails in the middle of a run.

KFP's compiler checks none of them. Each rule names its source, a file and a line of the backend or the page of the
service. Kubeflow is backend/src/v2 of github.com/kubeflow/pipelines at 2.17.0, Argo is
github.com/argoproj/argo-workflows at 4.0.5.
"""

import dataclasses
from collections.abc import Callable, Sequence

from pipeline.graph import breaches
from pipeline.graph.compiled import Compiled
from trainer.errors import UserError

VERTEX, KUBEFLOW = ("vertex",), ("kubeflow",)
BOTH = VERTEX + KUBEFLOW


@dataclasses.dataclass(frozen=True)
class Rule:
    """One demand of a backend."""

    name: str
    targets: Sequence[str]
    broken: Callable[[Compiled], breaches.Places]
    """Finds the places that break it."""
    remedy: str
    source: str


RULES = (
    Rule(
        "URI of an importer",
        KUBEFLOW,
        breaches.uri_of_importer,
        "give an importer a constant or an input of the pipeline around it; put it into a pipeline of its own",
        "Kubeflow component/importer_launcher.go:208-229, the same since 2.0",
    ),
    Rule(
        "name of an importer",
        KUBEFLOW,
        breaches.name_of_importer,
        "set no display name: an importer is recorded under it, and tasks that read its artifact do not find it",
        "Kubeflow component/importer_launcher.go:136",
    ),
    Rule(
        "condition of an importer",
        KUBEFLOW,
        breaches.condition_of_importer,
        "put the importer into a pipeline of its own, and the condition around that",
        "Kubeflow compiler/argocompiler/dag.go:338-341",
    ),
    Rule(
        "references",
        BOTH,
        breaches.references,
        "compile it again; a component or an executor of this name is not in the file",
        "Kubeflow compiler/visitor.go:109,161",
    ),
    Rule(
        "executors",
        KUBEFLOW,
        breaches.executors,
        "use containers and importers; Kubeflow runs neither custom jobs nor resolvers",
        "Kubeflow compiler/visitor.go:134",
    ),
    Rule(
        "producers",
        BOTH,
        breaches.producers,
        "read outputs of tasks of the same pipeline or branch, by the names that their components declare",
        "Kubeflow compiler/argocompiler/dag.go:666",
    ),
    Rule(
        "inputs of a nested pipeline",
        BOTH,
        breaches.parents,
        "hand the value to the pipeline or branch around the task",
        "Kubeflow driver/resolve.go:396,551",
    ),
    Rule(
        "required inputs",
        BOTH,
        breaches.required,
        "give the value, or make the input optional with a default (Optional[...] = None for an artifact)",
        "Kubeflow driver/resolve.go:186-193; is_optional in api/v2alpha1/pipeline_spec.proto",
    ),
    Rule(
        "outputs of branches",
        BOTH,
        breaches.branches,
        "read what one of several branches returns by dsl.OneOf, with every branch under a condition",
        "Kubeflow driver/resolve.go:1112-1148",
    ),
    Rule(
        "conditions",
        BOTH,
        breaches.conditions,
        "compare inputs of the task that has the condition",
        "Kubeflow driver/dag.go, expression/expression.go: an unknown key ends the driver",
    ),
    Rule(
        "choice between artifacts",
        BOTH,
        breaches.choices,
        "choose between URIs by dsl.OneOf, and import the one that is chosen",
        "Kubeflow 2.16.0 driver/resolve.go takes the last artifact, made or not; kfp.local takes none",
    ),
    Rule(
        "iteration over artifacts",
        KUBEFLOW,
        breaches.iterators,
        "iterate over a list of parameters",
        "Kubeflow compiler/argocompiler/dag.go:69",
    ),
    Rule(
        "constants",
        BOTH,
        breaches.channels,
        "give this value to the task as an argument: here only a constant is possible, and no backend fills it in",
        "kfp/dsl/pipeline_channel.py:45",
    ),
    Rule(
        "variables of the environment",
        KUBEFLOW,
        breaches.variables,
        "give a run-time value as an argument: variables are passed on unchanged",
        "Kubeflow driver/driver.go:289-293",
    ),
    Rule(
        "settings of Kubernetes",
        KUBEFLOW,
        breaches.platform,
        "set them on a task of the pipeline, from outputs of tasks beside it",
        "Kubeflow driver/resolve.go:404-415, driver/k8s.go:200",
    ),
    Rule(
        "one document",
        VERTEX,
        breaches.documents,
        "set nothing of Kubernetes for this target: its client reads files of one document",
        "google/cloud/aiplatform/utils/yaml_utils.py:118",
    ),
    Rule(
        "retries",
        BOTH,
        breaches.retries,
        "retry containers alone, at least once, after a pause that grows by a whole factor",
        "Argo workflow/controller/operator.go:1045-1057; Kubeflow compiler/argocompiler/importer.go",
    ),
    Rule(
        "caching",
        BOTH,
        breaches.caches,
        "do not cache it: a cached result never expires, and this task reads what changes",
        "cloud.google.com/vertex-ai/docs/pipelines/configure-caching; Kubeflow driver/cache.go",
    ),
    Rule(
        "length of a run's id",
        VERTEX,
        breaches.run_id,
        "name the pipeline with a-z, 0-9 and hyphens, a letter first, 113 characters at most",
        "google/cloud/aiplatform/constants/pipeline.py:36; the time of the run is added",
    ),
    Rule(
        "name of a workflow",
        KUBEFLOW,
        breaches.workflow_name,
        "name the pipeline with a-z, 0-9 and hyphens, 57 characters at most",
        "Kubeflow compiler/argocompiler/argo.go:156; Argo workflow/validate/validate.go:88-90",
    ),
    Rule(
        "names of tasks",
        KUBEFLOW,
        breaches.task_names,
        "name components with letters, digits and underscores, 121 characters at most",
        "Argo workflow/validate/validate.go:1624-1633",
    ),
    Rule(
        "labels of a job",
        VERTEX,
        breaches.job_labels,
        "correct the labels of the environment",
        "google/cloud/aiplatform_v1/types/custom_job.py:80-90; cloud.google.com/compute/docs/labeling-resources",
    ),
    Rule(
        "labels of Kubernetes",
        KUBEFLOW,
        breaches.pod_labels,
        "write at most 63 letters, digits, hyphens, dots and underscores, a letter or digit first and last",
        "kubernetes.io/docs/concepts/overview/working-with-objects/labels",
    ),
    Rule(
        "recipients of a message",
        VERTEX,
        breaches.recipients,
        "notify at most 3 addresses, or a mailing list",
        "cloud.google.com/vertex-ai/docs/pipelines/email-notifications",
    ),
    Rule(
        "machine of a task",
        VERTEX,
        breaches.machines,
        "ask for at most 96 CPUs (as 8 or 500m) and 624 GB of memory (as 16G); more is a training job",
        "cloud.google.com/vertex-ai/docs/pipelines/machine-types",
    ),
    Rule(
        "size of an argument",
        KUBEFLOW,
        breaches.arguments,
        "shorten the component's code or split the pipeline: it is one argument of a process, below 128 KiB",
        "Kubeflow compiler/argocompiler/container.go:201-204; Linux include/uapi/linux/binfmts.h:15",
    ),
    Rule(
        "size of a workflow",
        KUBEFLOW,
        breaches.workflow_size,
        "split the pipeline: Kubernetes stores a workflow as one object, below 1.5 MiB",
        "etcd.io/docs/v3.5/dev-guide/limit",
    ),
)
"""Every rule, in the order in which they are checked."""


def check_rules(text: str, target: str) -> None:
    """Raise `UserError` for the first rule of `target` that the compiled pipeline in `text` (YAML) breaks."""
    compiled = Compiled.parse(text)
    for rule in RULES:
        places = list(rule.broken(compiled)) if target in rule.targets else []
        if places:
            raise UserError(
                f"the compiled pipeline breaks a rule of {target}, {rule.name}: {'; '.join(places[:3])}; "
                f"{rule.remedy} (source: {rule.source})"
            )
