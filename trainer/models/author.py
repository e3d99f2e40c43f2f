"""The weights that MSI-Net's author publishes, by one word: `author:` and the dataset that they were trained on.

The places are those of his code (alexanderkroner/saliency, download.py, the models for CPUs). Whether they still
answer is unknown: the published files themselves have not been tried with this project.
"""

import dataclasses

from trainer.datasets import DRIVE, Archive
from trainer.errors import look_up

PREFIX = "author:"


@dataclasses.dataclass(frozen=True)
class AuthorWeights:
    """Weights of the author. Images are fitted to the size of their dataset in `trainer.datasets`."""

    dataset: str
    drive_id: str

    licence = "MIT License."
    citation = (
        "Alexander Kroner, Mario Senden, Kurt Driessens, Rainer Goebel: Contextual encoder-decoder network for "
        "visual saliency prediction. Neural Networks 129, 2020, doi 10.1016/j.neunet.2020.05.004."
    )
    homepage = "https://github.com/alexanderkroner/saliency"

    @property
    def stem(self) -> str:
        """Name of the files, without their suffixes."""
        return f"model_{self.dataset}_cpu"

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Where the archive is published."""
        return (Archive(f"{DRIVE}{self.drive_id}", f"{self.stem}.zip"),)


ROWS = (
    AuthorWeights("salicon", "1Xy9C72pcA8DO4CY0rc6B7wsuE9L9DDZY"),
    AuthorWeights("mit1003", "1jsESjYtsTvkMqKftA4rdstfB7mSYw5Ec"),
    AuthorWeights("cat2000", "1XxaEx7xxD6rHasQTa-VY7T7eVpGhMxuV"),
    AuthorWeights("dutomron", "14tuRZpKi8LMDKRHNVUylu6RuAaXLjHTa"),
    AuthorWeights("pascals", "1af9IvBqFamKWx64Ror6ALivuKNioOVIf"),
    AuthorWeights("osie", "1JD1tvAqZGxj_gEGmIfoxb9dTe5HOaHj1"),
    AuthorWeights("fiwi", "19qj9nAjd5gVHLB71oRn_YfYDw5n4Uf2X"),
)
WEIGHTS = {f"{PREFIX}{row.dataset}": row for row in ROWS}


def is_named(source: str) -> bool:
    """Whether a source of weights, or the name of a model, stands for weights of the author."""
    return source.startswith(PREFIX)


def get(source: str) -> AuthorWeights:
    """The row of `author:NAME`; raises `UserError` with the nearest known name if it is unknown."""
    return look_up("weights", source, WEIGHTS)
