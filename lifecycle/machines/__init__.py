"""The machines of a training: fit, time, cost and job. `lifecycle.runs.needs` asks for the quota."""
