"""Images that cannot be used: each is put aside with the reason, and preparation goes on while they are few."""

from dataclasses import dataclass, field

from trainer.errors import ContentError
from trainer.texts import some

MOST_LISTED = 200
"""A manifest lists the reasons of at most so many images."""


@dataclass
class BadImages:
    """The images of a source that are put aside."""

    most_share: float = 0.0
    """Largest share of the source's images that may be put aside."""
    n_images: int = 0
    """Number of images at the source. The images that are put aside count too."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Name of an image, or of a map without an image -> why it cannot be used."""

    def add(self, name: str, reason: str | ContentError) -> None:
        """Put an image aside. `check` says whether the source can still be used."""
        self.reasons[name] = str(reason)

    def check(self) -> None:
        """Raise `UserError` with the share, the first names and the first reason if too many are put aside."""
        names = list(self.reasons)
        if len(names) <= self.most_share * self.n_images:
            return
        reason = self.reasons[names[0]]
        if not self.most_share:
            raise ContentError(reason + (f" (as for {some(names[1:])})" if names[1:] else ""))
        share = len(names) / max(1, self.n_images)
        raise ContentError(
            f"{len(names):,} of {self.n_images:,} images ({share:.1%}) cannot be used, and max_bad_share is "
            f"{self.most_share:g}: {some(names)}. The first: {reason}"
        )

    def listed(self) -> dict[str, str]:
        """The first `MOST_LISTED` names with their reasons."""
        return dict(list(self.reasons.items())[:MOST_LISTED])

    def notes(self) -> list[str]:
        """A sentence about the images that were put aside. None if there are none."""
        if not self.reasons:
            return []
        first = some([f"{name} ({reason})" for name, reason in self.reasons.items()])
        return [f"{len(self.reasons):,} of {self.n_images:,} images cannot be used and are left out: {first}."]
