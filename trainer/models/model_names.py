"""The names by which a person gives a model or initial weights."""

import pathlib

REGISTRY, MODEL_NAME = "models", "msinet"
"""The local registry's folder in the working directory, and the name that the pipeline registers."""
DEFAULT, CHALLENGER = "default", "challenger"
"""The aliases that the pipeline sets."""
NO_FILE = ("imagenet", "none")
"""Values of `initial_weights` that name neither a file nor an address."""
PRETRAINED = "pretrained"
"""Name of the trained model that comes with this package."""
PRETRAINED_FOLDER = pathlib.Path(__file__).parent / PRETRAINED
"""The model that comes with this package, in compact form."""
GET_PRETRAINED = (
    f"get it again with `git checkout -- trainer/models/{PRETRAINED}`, or install msinet-pipelines again"
)
