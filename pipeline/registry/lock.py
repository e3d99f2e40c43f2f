"""A lock that processes on several machines share: an object on Cloud Storage."""

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Self

from trainer import generations
from trainer.errors import UserError, check
from trainer.generations import ChangedError

LEASE_S = 60.0
"""A process that has not renewed its lock for so long is taken for dead."""
RENEWALS = 4
"""A living one renews it so often in that time."""
WAIT_S = 1800.0
"""How long to wait for a lock that is renewed. It is held while a model of some 200 MB is uploaded."""
POLL_S = 1.0


class Lock:
    """A lock for the length of a `with` block: an object that names its holder, or is empty.

    The holder renews the lock. Another process takes it over when it has seen no renewal for LEASE_S by its own
    clock, so that clocks need not agree. A holder that was only stopped for so long then continues beside the
    next one. So each write that matters must be a `generations.replace` of its own.
    """

    def __init__(self, address: str, connected: Any) -> None:
        self._address = address
        self._connected = connected
        self._holder = f"process {os.getpid()} on {socket.gethostname()}"
        self._generation = 0
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        self._acquire()
        self._renewer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._renewer.join()
        with suppress(UserError):  # taken over, or out of reach; then it ends by itself
            self._write(b"")

    def _acquire(self) -> None:
        started = changed = time.monotonic()
        seen, told = -1, ""
        while True:
            content, generation = generations.read(self._address, self._connected)
            if generation != seen:
                seen, changed = generation, time.monotonic()
            if not content or time.monotonic() - changed > LEASE_S:
                self._generation = generation
                with suppress(ChangedError):
                    self._write(self._holder.encode())
                    return
            holder = content.decode(errors="replace") or "another process"
            check(
                time.monotonic() - started < WAIT_S,
                f"{self._address} has been held for {WAIT_S / 60:.0f} minutes, now by {holder}; "
                "end it, then try again",
            )
            if content and holder != told:
                print(f"waiting until {holder} releases {self._address}", flush=True)
                told = holder
            time.sleep(POLL_S)

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_S / RENEWALS):
            try:
                self._write(self._holder.encode())
            except ChangedError:
                return
            except UserError as error:
                print(f"warning: {error}", flush=True)

    def _write(self, content: bytes) -> None:
        self._generation = generations.replace(self._address, content, self._generation, self._connected)
