"""The tasks of the pipeline. Each one imports what it needs, calls it, and logs the result.

kfp copies the body of a component into the compiled pipeline, so its imports are inside the function. A component
has one argument for each setting, without a default, and passes it on by keyword. This makes plan_training and
train_model longer than other functions, but a setting cannot get lost or swapped.
"""

IMAGE = "msinet-cpu"
"""Name of the image that runs the tasks; an environment adds its repository and tag."""
