"""The machines of a training: whether it fits, its time, cost and job; quota is asked for in `pipeline/vertex`."""
