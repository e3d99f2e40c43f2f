"""From prepared data to a model: devices, the loop, checkpoints and logs. `trainer/network` has the network."""

from trainer.doors import opened

__all__ = [
    "ACCELERATORS",  # the table of machines by name
    "FLEX_START",  # machines for which a job waits
    "LOSSES_FILE",  # the variable that names the file of losses
    "PROVISIONING",  # all ways to buy machines
    "RECIPES",  # named sets of training settings
    "SPOT",  # machines that Google may reclaim
    "TUNED_METRIC",  # the name of the loss that a sweep minimizes
    "Accelerator",  # a machine with its chips, prices and quotas
    "Estimate",  # both ends of an estimate
    "TrainConfig",  # the settings of a training
    "measure_speed",  # times steps on made images
    "read_facts",  # what the probe of `doctor` has written
    "read_losses",  # the losses of a trial by epoch
    "train_checked",  # checks the arguments, then trains
    "watch_training",  # a child trains, and this process explains its crash
]
__getattr__ = opened(__name__, __file__)
