"""The names by which a person gives a model or initial weights."""

REGISTRY, MODEL_NAME = "models", "msinet"
"""The local registry's folder in the working directory, and the name that the pipeline registers."""
DEFAULT, CHALLENGER = "default", "challenger"
"""The aliases that the pipeline sets."""
NO_FILE = ("imagenet", "none")
"""Values of `initial_weights` that name neither a file nor an address."""
PRETRAINED = "pretrained"
"""Name of the trained model that comes with this package."""
