"""The settings of what a run registers and where, and of the gate that data pass before anything is trained."""

import dataclasses
from typing import ClassVar

from lifecycle.registry.address import Address, check_registry
from trainer.errors import SettingError, check
from trainer.models import MODEL_NAME, REGISTRY
from trainer.places import stored_at
from trainer.settings import check_ranges, setting


@dataclasses.dataclass(frozen=True)
class DataGateConfig:
    """Settings of the gate that data have to pass before anything is trained."""

    TITLE: ClassVar[str] = "data gate"
    min_images: int = setting(
        0, "Smallest number of images of the fine-tuning data. With fewer, the run ends before it trains.", ge=0
    )
    min_observers: int = setting(
        0,
        "Smallest number of observers of the median image of the fine-tuning data. With fewer, or if observers "
        "are not told apart, the run ends before it trains. 0 for any.",
        ge=0,
    )
    data_gate: str = setting(
        "hold",
        "What a question about the data does, such as recordings that changed since the current default, "
        "positions that look upside down or moved, a person who agrees with nobody, or images of another kind: "
        "hold (the candidate becomes the challenger, which a person may promote), warn (a sentence in the "
        "report), or strict (the run ends before it trains).",
        choices=("hold", "warn", "strict"),
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """Settings of the pipeline as a whole."""

    TITLE: ClassVar[str] = "model, registry and checkpoints"
    model_name: str = setting(
        MODEL_NAME,
        "Name of the model in the registry.",
        pattern="[_-]*[A-Za-z0-9][A-Za-z0-9_-]*",
        hint="a name of letters, digits, - and _, since it names a folder",
    )
    registry: str = setting(
        "",
        "Model registry: a folder, gs://BUCKET/FOLDER, or vertex://PROJECT/LOCATION?serving=IMAGE. Empty for "
        "`models` in the working directory.",
    )
    endpoint: str = setting(
        "",
        "Name or ID of an endpoint of Vertex AI, in the project and location of a vertex:// registry, to which a "
        "version that becomes the default is deployed once it answers as in its evaluation. Empty for none.",
    )
    traffic: int = setting(
        10,
        "Percent of the requests to the endpoint that a new default answers until `python -m pipeline registry "
        "promote` gives it all. It gets all at once if nothing else answers there.",
        ge=1,
        le=100,
    )
    experiment: str = setting(
        "",
        "Name of an experiment of Vertex AI, in the project of a vertex:// registry, which the run "
        "joins. It is created if necessary. Empty for none.",
        pattern=r"([a-z0-9][a-z0-9-]{0,127})?",
        hint="lower-case letters, digits and -, such as photographs",
    )
    checkpoint_dir: str = setting(
        "",
        "Folder or gs:// address for the checkpoints of the training steps. Empty for a folder next to the output "
        "of each step. On Kubeflow it must be given, since pods keep nothing.",
    )

    skip_unchanged: bool = setting(
        False,
        "End at once, without training, if a version was made of the same data, settings, code and start, and was "
        "compared with the default, or is it.",
    )
    evaluate_base: bool = setting(False, "Also evaluate on the validation split of the base dataset.")
    base_model_uri: str = setting(
        "",
        "Model to fine-tune instead of training a base model: pretrained (the trained model that comes with this "
        "package, and with its images), author:salicon (that of MSI-Net's author), the path or gs:// address of "
        "a model, or of weights that `python -m trainer import-weights` accepts. msinet@default is the default "
        "version of the registry, msinet@3 its version 3. The base data is then needed only for evaluate_base, "
        "and parameters of base training, which have no effect, are refused. "
        "Empty trains a base model.",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_registry(self.registry)
        for name, value in (("endpoint", self.endpoint), ("experiment", self.experiment)):
            check(
                not value or Address.found(self.registry) is not None,
                f"{name} is {value!r}, but registry is {self.registry or REGISTRY!r}, which has none. Set "
                f"registry to {Address.SYNTAX}, or leave out {name}",
                SettingError,
            )
        check(
            "://" not in self.checkpoint_dir or not stored_at(self.checkpoint_dir).is_local,
            f"checkpoint_dir is {self.checkpoint_dir!r}. Give a folder or a gs:// address",
            SettingError,
        )
