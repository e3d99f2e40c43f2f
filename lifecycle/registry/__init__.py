"""Versions of a model in a folder, a bucket or Vertex AI, and endpoints. The gate is in `trainer/evaluation`."""

from trainer.doors import opened

__all__ = [
    "OWNER",  # the label of all that the pipeline makes on Vertex AI
    "REGISTERED_NAME",  # the syntax of a version's name, such as `msinet@3`
    "Address",  # the address of a Vertex AI registry and its serving container
    "DataGate",  # what data must pass before a training
    "DataGateConfig",  # the settings of the data gate
    "DefaultMove",  # one move of the default
    "PipelineConfig",  # the settings of model, registry and checkpoints
    "Registry",  # what every registry can do
    "Version",  # one registered model
    "VertexRegistry",  # the registry on Vertex AI
    "check_shared",  # refuses a registry in which tasks elsewhere cannot register a version
    "digest_of_inputs",  # the digest of code, settings and data
    "evaluate_candidate",  # evaluates a candidate and the current default
    "fetched_of",  # the folders that have a prepared dataset
    "lineage_of",  # what a model was made of, for its record
    "numbered",  # versions by number, with `pretrained` as 0
    "open_registry",  # the registry at a location
    "register_model",  # adds an evaluated model to a registry
    "resolve_base_model",  # `msinet@default` to its folder and version
    "version_made_of",  # the version that a run would only repeat
]
__getattr__ = opened(__name__, __file__)
