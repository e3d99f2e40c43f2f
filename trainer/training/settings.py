"""The settings of a training."""

import dataclasses
from collections.abc import Callable, Collection
from typing import ClassVar, Self

from trainer.errors import SettingError, check
from trainer.settings import check_ranges, setting, settings_text
from trainer.training.recipes import PAPER, RECIPES, described_recipes

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
LEARNING_RATE_SCALING = ("auto", "none", "sqrt", "linear", "capped")
SCHEDULES = ("constant", "cosine")
OPTIMIZATION = "loss, optimizer and learning rate"
AUGMENTATION = "augmentation"


def parse_profile_steps(text: str) -> tuple[int, int] | None:
    """Return the first and the last step to profile, counted from 1, of a text such as `10-20`. None for an
    empty text.

    Raises:
        UserError: if the steps are out of order.
    """
    if not text:
        return None
    first, last = map(int, text.split("-"))
    check(
        1 <= first <= last,
        f"profile_steps is {text}. Steps count from 1, and the first is not after the last",
        SettingError,
    )
    return first, last


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Settings of one training. The defaults are the paper's (Kroner et al. 2020, section 3.4)."""

    TITLE: ClassVar[str] = "training"
    recipe: str = setting(
        PAPER,
        f"Set of settings of the trainings. {described_recipes()}. Each ends with a calibration (calibrate). "
        "A setting of a recipe cannot be given as well. "
        "In a form that gives every setting, as in the console, one with its default value becomes the recipe's.",
        choices=RECIPES,
    )
    epochs: int = setting(10, "Passes over the training set.", ge=1)
    batch_size: int = setting(1, "Images per step, over all replicas. 0 for the default of the accelerator.", ge=0)
    accumulation: int = setting(
        1,
        "Number of parts into which each device splits its images of a step, computed one after another, to "
        "save memory.",
        ge=1,
    )
    learning_rate: float = setting(
        1e-5, "Learning rate of Adam for a batch of one.", group=OPTIMIZATION, gt=0, le=1
    )
    learning_rate_scaling: str = setting(
        "auto",
        "How the learning rate grows with the batch size: none, sqrt (its square root), linear, capped (linear up "
        "to 64, then with the square root), or auto: capped if batch_size is 0, else none.",
        group=OPTIMIZATION,
        choices=LEARNING_RATE_SCALING,
    )
    warmup_epochs: float = setting(
        0.0, "Epochs over which the learning rate rises from 0.", group=OPTIMIZATION, ge=0
    )
    schedule: str = setting(
        "constant",
        "Learning rate after the warm-up: constant, or cosine (decays to 0 at the end).",
        group=OPTIMIZATION,
        choices=SCHEDULES,
    )
    flip: bool = setting(
        False,
        "Mirror every training image and its map left to right with a probability of one half.",
        group=AUGMENTATION,
    )
    flip_prediction: bool = setting(
        False,
        "Let the trained model predict each image and its mirror image, and average both maps (test-time "
        "augmentation): a little better, in twice the time. Evaluation, serving and exports do so too. The "
        "training itself does not change.",
        group=AUGMENTATION,
    )
    calibrate: bool = setting(
        True,
        "After the training, fit seven numbers to the validation images, so that the model's maps spread as far "
        "as observers do. They become part of the model if images that they are not fitted to gain significantly.",
        group=OPTIMIZATION,
    )
    patience: int = setting(
        0,
        "Stop after this many epochs without a better validation loss. 0 never stops early.",
        group=OPTIMIZATION,
        ge=0,
    )
    seed: int = setting(42, "Seed of the initial weights and of the order of the images.", ge=0, le=2**32 - 1)
    precision: str = setting(
        "auto",
        "float32, bfloat16, float16 (with loss scaling), or auto: the fastest on the hardware.",
        choices=PRECISIONS,
    )
    initial_weights: str = setting(
        "imagenet",
        "Weights to start from: imagenet (an encoder, downloaded by Keras), pretrained (the trained model that "
        "comes with this package), author:salicon (the whole network, downloaded from its author), none, or a "
        "file of VGG16 or of the whole network in any format that `python -m trainer import-weights` reads. A "
        "base model replaces them.",
        pattern=r"(?s:.*\S.*)",
        hint="imagenet, pretrained, none, or a file of weights",
    )
    checkpoint_minutes: float = setting(10.0, "Longest time between two checkpoints, in minutes.", gt=0)
    deterministic: bool = setting(
        True,
        "Use only operations whose results are bit-for-bit reproducible.",
    )
    profile_steps: str = setting(
        "",
        "Steps to profile for TensorBoard, such as 10-20, empty for none.",
        pattern=r"(\d{1,9}-\d{1,9})?",
        hint="the first and the last step, such as 10-20",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check(
            self.warmup_epochs < self.epochs,
            f"warmup_epochs is {self.warmup_epochs:g}. It must be below epochs, which is {self.epochs}",
            SettingError,
        )
        parse_profile_steps(self.profile_steps)

    def with_recipe(
        self, fine_tuning: bool, given: Collection[str] = (), named: Callable[[str], str] = str
    ) -> Self:
        """Put the settings of a recipe in place of the defaults in these.

        Args:
            fine_tuning: whether the training starts from a model.
            given: names of the settings that a person is known to have given. Whatever differs from its default
                counts as given too.
            named: name of a field -> the name by which a person gives the setting, for the message. Example:
                `epochs` is `--epochs` in a terminal, and `base_epochs` in a run.

        Raises:
            UserError: a setting was given that the recipe sets to another value.
        """
        chosen = RECIPES[self.recipe].settings(fine_tuning)
        was_given = {
            field.name: field.name in given or getattr(self, field.name) != field.default
            for field in dataclasses.fields(self)
        }
        own = {name: getattr(self, name) for name in chosen if was_given[name]}
        twice = {name: value for name, value in own.items() if value != chosen[name]}
        if twice:
            values = settings_text({named(name): value for name, value in twice.items()})
            theirs = settings_text({named(name): chosen[name] for name in twice})
            raise SettingError(
                f"{' and '.join(map(named, twice))} {'are' if len(twice) > 1 else 'is'} given twice: {values}, "
                f"and {settings_text({named('recipe'): self.recipe})} sets {theirs}: leave out one"
            )
        return dataclasses.replace(self, **chosen)

    def check_recipe_applied(self, fine_tuning: bool) -> None:
        """Raise `UserError` unless the settings have the values of their recipe, as `with_recipe` returns them.

        Example: `recipe="few"` with `epochs` of its default is refused.
        """
        chosen = RECIPES[self.recipe].settings(fine_tuning)
        others = {name: getattr(self, name) for name, value in chosen.items() if getattr(self, name) != value}
        check(
            not others,
            f"recipe={self.recipe} sets {settings_text({name: chosen[name] for name in others})}, but the "
            f"settings have {settings_text(others)}: give them its values, or recipe={PAPER}",
            SettingError,
        )

    def with_batch(self, batch_size: int) -> Self:
        """The settings with the batch size in use, and `auto` scaling of the learning rate resolved for it.

        Example: `auto` becomes `none` where a person gave the batch size, else `capped`.
        """
        scaling = self.learning_rate_scaling
        if scaling == "auto":
            scaling = "none" if self.batch_size else "capped"
        return dataclasses.replace(self, batch_size=batch_size, learning_rate_scaling=scaling)

    def check_shares(self, replicas: int, images: int, accelerator: str = "") -> None:
        """Raise `UserError` unless the data have a whole batch, and all replicas and parts get as many images.

        Example: a batch of 32 on 3 replicas is refused.

        Args:
            replicas: chips that share a batch.
            images: training images.
            accelerator: its name, for the message. Empty if none was named.
        """
        batch_size, accumulation = self.batch_size, self.accumulation
        n_parts = replicas * accumulation
        lower = batch_size // n_parts * n_parts
        near = " or ".join(str(batch) for batch in (lower, lower + n_parts) if batch)
        divisor = f"{replicas} replicas{f' of {accelerator}' if accelerator else ''}"
        divisor += f" x accumulation {accumulation}" if accumulation > 1 else ""
        check(
            batch_size % n_parts == 0,
            f"batch_size is {batch_size}, not a multiple of {divisor}. Set it to {near}, or to 0 for the default",
            SettingError,
        )
        check(
            batch_size <= images,
            f"batch_size is {batch_size} over {replicas} replicas, but there are {images} training images. "
            "Make it smaller, use fewer chips, or prepare more images (max_examples)",
            SettingError,
        )
