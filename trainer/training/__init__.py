"""Training: devices, precision, schedule, the loop, its checkpoints and its logs."""
