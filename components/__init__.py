"""The tasks of the pipeline. Each one imports what it needs, calls it, and logs the result.

kfp copies the body of a component into the compiled pipeline, so its imports are inside the function. A component
has one argument for each setting, without a default. `config_of` takes the settings from the arguments by their
names and fails if one is missing, so that no setting can get lost or swapped.

An input artifact is optional if its default is None. Its annotation stays `dsl.Input[...]`, without `Optional`:
Kubeflow passes artifacts on without the name of their class, and kfp then makes an instance of the annotation.
"""

IMAGE = "msinet-cpu"
"""Name of the image that runs the tasks; an environment adds its repository and tag."""
