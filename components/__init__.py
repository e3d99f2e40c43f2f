"""The tasks of the pipeline, one thin file each. What they do is in `lifecycle` and `trainer`.

kfp copies the body of a component into the compiled pipeline, so its imports are inside the function. The first
task, check_run, has an argument for each field of the pipeline's form, and gives later tasks the settings that
they need as one JSON object. A JSON object with parameters in it would not do. The backend pastes them unquoted.
So a quotation mark in one of them breaks the object. Example: `{"source": "a"b"}`. See `getPlaceholders` in
kubeflow/pipelines 2.17.0, backend/src/v2/component/launcher_v2.go. kfp.local does the same.

An input artifact is optional if its default is None. Its annotation stays `dsl.Input[...]`, without `Optional`:
Kubeflow passes artifacts on without the name of their class, and kfp then makes an instance of the annotation.
Vertex AI is reported to cache no task of a component with an optional artifact (kubeflow/pipelines issue 11410).
So only three components have one:

- train_model does not run there.
- evaluate_model is not cached.
- train_msinet serves pipelines of others, and gets its base model from one of their tasks.
"""

IMAGE = "msinet-cpu"
"""Name of the image that runs the tasks. An environment adds its repository and tag."""
NEVER_CACHED = (
    *("check-run", "check-data", "end-branch"),
    *("named-model", "importer", "evaluate-model", "upload-model", "deploy-version", "report-end", "fall-back"),
)
"""Tasks that depend on more than their inputs, such as the current registry. `end_branch` has to run."""
