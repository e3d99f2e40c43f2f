"""From prepared data to a model: devices, the loop, checkpoints and logs; the network is in `trainer/network`."""
