"""Models by name: looked up, downloaded from the author, found in other forms, exported to servers."""

from trainer.doors import opened

__all__ = [
    "ALIASES",  # the file name of a registered name's aliases
    "AUTHOR_WEIGHTS",  # `author:NAME` to the row of the author's published weights
    "CHALLENGER",  # the alias of the newest version that is not the default
    "DEFAULT",  # the alias of the version that answers
    "MODEL_NAME",  # the name that the pipeline registers
    "NO_FILE",  # words for initial weights without a file
    "PRETRAINED",  # the name of the model that comes with the package
    "PRETRAINED_VERSION",  # that model as version 0 of every registered name
    "REGISTRY",  # the folder of the local registry
    "VERSION",  # the file name of a version's record
    "Answering",  # a model that answers, and what it says of itself
    "ModelExport",  # a model that is written in the form of other programs
    "Provenance",  # what a model or data come from, and the notices of the sample set
    "WeightSource",  # weights as a person names them: fingerprint, check, import
    "choose_model",  # the model of a name, or the default, with the reason
    "find_model",  # the folder that a model's name means
    "find_opponent",  # the model that a lone model is compared with
    "is_author_weights",  # whether a source is one of the author's weights
    "number_of",  # the version that a number or an alias names
    "version_numbers",  # the versions in the folder of a name
]
__getattr__ = opened(__name__, __file__)
