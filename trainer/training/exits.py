"""Exit statuses of a training that ends early but can resume.

Vertex AI decides by the status whether a custom job goes on (its page "Understand the custom training service"):

| status | the service |
|---|---|
| 0 of the chief | ends the job as succeeded, and stops all other machines |
| 134 (128 + SIGABRT), 139 (128 + SIGSEGV) | may be transient: restarts the job up to three times |
| any other | ends the job as failed |

On other platforms the status tells an interrupted training from a finished one (0) and a failed one (1).
"""

import os
import signal

JOB = "CLOUD_ML_JOB_ID"
"""Vertex AI sets this variable in its custom jobs, to the job's number."""
SHELL_SIGNAL_BASE = 128
"""A shell reports this plus the signal's number for a process that a signal ended."""
TRANSIENT = SHELL_SIGNAL_BASE + signal.SIGABRT
"""The status in a custom job of Vertex AI, which then restarts and resumes from the last checkpoint."""
OTHER_LOST = 75
"""EX_TEMPFAIL, the same command may succeed later."""


def stopped(number: int) -> int:
    """The status after signal `number` asked a machine of the job to stop; 143 for SIGTERM, 130 for Ctrl-C."""
    return TRANSIENT if JOB in os.environ else SHELL_SIGNAL_BASE + number


def machine_lost() -> int:
    """The status after another machine of the job was lost."""
    return TRANSIENT if JOB in os.environ else OTHER_LOST
