"""What is computed on: memory, processors, processes, and how far a work is."""

from trainer.doors import opened

__all__ = [
    "CPU_INFO",  # the file in which Linux describes the processors
    "LOG_EVERY_S",  # seconds between two lines of progress
    "Limits",  # what one call of an untrusted decoder may take
    "ProcessId",  # a process, and whether it still runs
    "Tracker",  # shows how far a work is
    "announce",  # says what takes a while
    "available_bytes",  # the free memory
    "call_untrusted",  # runs a decoder in the worker of untrusted input
    "code_version",  # the version and commit of the code
    "end_untrusted",  # ends that worker
    "end_with_parent",  # ends this process with its parent
    "has_own_users",  # whether root here is nobody outside
    "is_for_tpu",  # whether this image is for TPUs
    "load_openvino",  # imports OpenVINO, late
    "load_tensorflow",  # imports TensorFlow, late
    "locked_memory_is_low",  # whether there is too little locked memory for a TPU
    "map_ahead",  # maps in threads, some items ahead
    "multiplies_bfloat16",  # whether the CPU multiplies bfloat16
    "n_cpus",  # the processors that this process may use at a time
    "open_pool",  # threads that end at once
    "openvino_core",  # OpenVINO's runtime of this process
    "raise_locked_memory",  # raises the limit of locked memory
]
__getattr__ = opened(__name__, __file__)
