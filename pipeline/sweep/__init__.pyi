from .local import describe_here as describe_here, run_here as run_here
from .space import read_sweep as read_sweep
from .vertex import StartedSweep as StartedSweep, describe_on_vertex as describe_on_vertex
