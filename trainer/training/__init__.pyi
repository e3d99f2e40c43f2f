from .accelerators import (
    ACCELERATORS as ACCELERATORS,
    FLEX_START as FLEX_START,
    PROVISIONING as PROVISIONING,
    SPOT as SPOT,
    Accelerator as Accelerator,
    Estimate as Estimate,
)
from .doctor_probe import read_facts as read_facts
from .exits import watch_training as watch_training
from .hypertune import LOSSES_FILE as LOSSES_FILE, TUNED_METRIC as TUNED_METRIC, read_losses as read_losses
from .recipes import RECIPES as RECIPES
from .settings import TrainConfig as TrainConfig
from .speed import measure_speed as measure_speed
from .start import train_checked as train_checked
