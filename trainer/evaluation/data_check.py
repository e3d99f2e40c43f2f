"""What the current default model and its data say about new data, before anything is trained.

Images that were there before must have the same recordings. The default's maps are a witness of all positions
(`trainer.witness`), and each person is compared with the others. What is found is a question about the
data, which only a person can answer.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from trainer import witness
from trainer.data import Manifest, PreparedData, Shift, hash_position
from trainer.evaluation.evaluation import Role
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.recorded import Compared, Line
from trainer.io import StrPath
from trainer.machine import Tracker
from trainer.metrics import LEAD, METRICS
from trainer.models import Provenance
from trainer.network import PER_IMAGE, Frame
from trainer.texts import some
from trainer.witness import Looked

MOST_ASKED = 120
"""The default predicts so many images of a dataset, half of them added ones if there are as many."""
MOST_SCORED = 60
"""So many held-out images are scored."""
FEWEST_SCORED = 12
"""So many scores are compared with others."""
MOST_CHANGED = 0.05
"""So many recordings of images of before may change without holding a promotion, as a share."""
MOST_GONE = 0.2
"""Share of the images of before that may be gone."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something about the data that a person should know."""

    text: str
    """A clause that follows the name of the data and a colon."""
    is_large: bool = True
    """Whether it holds a promotion."""


def ask_about(folder: StrPath, default: StrPath, compared: Compared, decided: bool = True) -> list[Finding]:
    """Find what is odd about prepared data.

    Args:
        folder: The prepared data.
        default: Folder of the current default model.
        compared: Their images beside the images of the default's data, if these are known.
        decided: Whether the default was decided on the held-out images of these data, so that it has their scores.
    """
    manifest = Manifest.load(folder)
    if Provenance(vars(manifest)).is_sample:
        return []
    added = {line.key for line in compared.added} if compared.n_before else set()
    scores = _scores(folder, manifest, default, compared) if decided and compared.n_before else NO_SCORES
    found = list(_about_pairs(compared, scores))
    asked = list(_ask(folder, manifest, default, _chosen(compared.now, added)))
    of_added = [each for each in asked if each[0] in added]
    for group, chosen in (("", asked), (f"the {len(added):,} added images look ", of_added)):
        reading = witness.better_reading([grid for _, grid, _ in chosen], [looked for _, _, looked in chosen])
        if reading is not None:
            found.append(Finding(f"{group or 'positions look '}{reading}, by the maps of the current default"))
            break
    return [*found, *_about_people(folder, manifest)]


def _about_pairs(compared: Compared, scores: "_Scores") -> Iterator[Finding]:
    """What happened to the images that were there before."""
    if gone := compared.n_gone:
        text = f"{gone:,} of the {compared.n_before:,} images that were there before are gone"
        yield Finding(text, gone > MOST_GONE * compared.n_before)
    if resized := len(compared.pairs) - len(compared.comparable):
        text = f"{resized:,} images that were there before have another size, so their recordings are not compared"
        yield Finding(text, is_large=False)
    if changed := compared.changed:
        how = compared.how()
        names = some([pair.now.image for pair in changed])
        n_comparable = len(compared.comparable)
        text = f"the recordings of {len(changed):,} of the {n_comparable:,} images that were there before "
        text += f"have changed ({names})" + (f": {how}" if how else "")
        if len(scores.now):
            text += (
                f", and the {METRICS[LEAD].label} of the current default on {len(scores.now):,} of all that it "
                f"was decided on was {scores.then.mean():.3f}, and is {scores.now.mean():.3f} now"
            )
        yield Finding(text, len(changed) > MOST_CHANGED * n_comparable)
    if min(len(scores.added), len(scores.all_then)) >= FEWEST_SCORED:
        difference = scores.shift()
        if difference.is_large:
            yield Finding(
                f"the {METRICS[LEAD].label} of the current default is {scores.added.mean():.3f} on "
                f"{len(scores.added):,} added images, and was {scores.all_then.mean():.3f} on those of before "
                f"({difference.effect:+.1f} standard deviations)"
            )


@dataclasses.dataclass(frozen=True)
class _Scores:
    """Scores of the default in `LEAD`."""

    then: np.ndarray
    """(n,) on images of before, as they were."""
    now: np.ndarray
    """(n,) on the same images, as they are now."""
    all_then: np.ndarray
    """(m,) on all images on which it was decided."""
    added: np.ndarray
    """(k,) on added images."""

    def shift(self) -> Shift:
        """How much the scores on added images differ from the scores before."""
        return Shift.of_values(self.added, self.all_then, least_std=0.02)


NO_SCORES = _Scores(*[np.zeros(0)] * 4)


def _scores(folder: StrPath, manifest: Manifest, default: StrPath, compared: Compared) -> _Scores:
    """The scores of the default then and now. Empty for one without scores of its images."""
    table = pathlib.Path(default, PER_IMAGE)
    if not table.is_file():
        return NO_SCORES
    decided_on = next(iter(PerImage.read_all(table, "restore it").values()))  # what decides is written first
    then = dict(zip(decided_on.images, decided_on.scores[Role.CANDIDATE][LEAD].tolist(), strict=True))
    split = manifest.held_out
    held_out = {line.image for line in compared.now if line.split == split}
    pairs = {
        pair.now.image: then[pair.before.image]
        for pair in compared.pairs
        if (pair.now.split, pair.before.split) == (split, split) and pair.before.image in then
    }
    old = sorted(pairs, key=hash_position)[:MOST_SCORED] if compared.changed else []
    added = [line.image for line in compared.added if line.split == split]
    new = sorted(added, key=hash_position)[:MOST_SCORED]
    now = _score(folder, manifest, default, held_out, {*old, *new})
    return _Scores(
        np.array([pairs[name] for name in old]),
        np.array([now[name] for name in old]),
        np.array(list(then.values())),
        np.array([now[name] for name in new]),
    )


def _score(
    folder: StrPath, manifest: Manifest, default: StrPath, held_out: Collection[str], names: Collection[str]
) -> dict[str, float]:
    """Name of a held-out image -> score of the default."""
    if not names:
        return {}
    from trainer.evaluation.scoring import Scorer  # loads TensorFlow

    left_out = set(held_out) - set(names)
    predictors: dict[str, Any] = {Role.CHAMPION: _predictor(str(default))}
    table = Scorer(pathlib.Path(folder), manifest, predictors, left_out=left_out).score("score the data")
    return dict(zip(table.images, table.scores[Role.CHAMPION][LEAD].tolist(), strict=True))


@functools.lru_cache(2)
def _predictor(default: str) -> Any:
    from trainer.prediction import Predictor

    return Predictor(default)


def _chosen(lines: Sequence[Line], added: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The images that the default is asked about: about as many added ones as others."""
    groups: list[list[tuple[str, str]]] = [[], []]
    for line in sorted(lines, key=lambda line: hash_position(line.digest)):
        groups[line.key in added].append(line.key)
    n_added = min(len(groups[1]), max(MOST_ASKED // 2, MOST_ASKED - len(groups[0])))
    return {*groups[1][:n_added], *groups[0][: MOST_ASKED - n_added]}


def _ask(
    folder: StrPath, manifest: Manifest, default: StrPath, chosen: Collection[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], witness.Grid, Looked]]:
    """Each chosen image, the default's map of it, and where people looked."""
    predictor = _predictor(str(default))
    with Tracker("ask the current default", len(chosen), "images") as tracker:
        for split in manifest.counts:
            for example in PreparedData(folder).examples(split):
                if (split, example.name) not in chosen:
                    continue
                top, left, height, width = Frame(manifest.image_size).box(example.original_size)
                box = slice(top, top + height), slice(left, left + width)
                grid = witness.to_grid(predictor.predict(example.stimulus[box]))
                if manifest.has_fixations:
                    looked = Looked.of_points(example.fixations, example.original_size)
                else:
                    looked = Looked.of_density(example.density[box], example.original_size)
                tracker.advance()
                yield (split, example.name), grid, looked


def _about_people(folder: StrPath, manifest: Manifest) -> Iterator[Finding]:
    """The people who do not look where the others do."""
    if not manifest.has_known_observers:
        return

    images = []
    for split in manifest.counts:
        for example in PreparedData(folder).some_examples(split, 2 * MOST_ASKED):
            height, width = example.original_size
            shares = (example.fixations + 0.5) / example.original_size
            images.append((shares, example.observers, width / height))
    for observer, reading in witness.odd_observers(images).items():
        who = f"the fixations of observer {observer + 1} (in the order of their names) "
        said = f"look {reading}, by those of the others" if reading else "agree with no one's by more than chance"
        yield Finding(who + said)
