"""The process of one trial on this machine. `pipeline.sweep.local` starts it.

`python -m pipeline.sweep.worker ...` is `python -m trainer train ...`, which saves its state and stops when its
standard input closes: no training continues after the sweep has ended, however that one ended.
"""

import os
import signal
import sys
import threading


def main() -> None:
    """Train with the flags of this process."""
    threading.Thread(target=_stop_with_stdin, daemon=True).start()
    from trainer.__main__ import main as run

    run(["train", *sys.argv[1:]])


def _stop_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
