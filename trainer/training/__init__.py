"""From prepared data to a model: devices, the loop, checkpoints and logs. `trainer/network` has the network."""
