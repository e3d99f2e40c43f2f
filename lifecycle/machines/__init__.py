"""The machines of a training: whether it fits, its time, cost and job. `lifecycle.needs` asks for the quota."""
