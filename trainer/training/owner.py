"""The owner of a folder of checkpoints: one training at a time writes there.

The owner keeps the file `OWNER` in the folder, and renews it at intervals. A training that finds the file of
another one takes over at once if that was an earlier start of the same job, or a process of this machine that is
gone. Otherwise it watches the file: once it changes, its owner is alive; if it stays the same for `DEAD_S`, its
owner is dead. No clock of another machine is read.
"""

import dataclasses
import datetime
import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Self

from trainer.errors import UserError
from trainer.files import is_running, machine
from trainer.storage import Folder
from trainer.training.exits import JOB

OWNER = "owner.json"
INTERVAL_S = 20.0
"""Time between two renewals."""
DEAD_S = 120.0
"""Several intervals, and longer than a mounted bucket may show an old file (gcsfuse's metadata cache: 60 s)."""
POLL_S = 2.0


@dataclasses.dataclass(frozen=True)
class Claim:
    """Content of the file OWNER."""

    job: str
    """Id of the custom job on Vertex AI; empty elsewhere."""
    host: str
    machine: str
    process: int
    since: str
    """When the owner began, by its own clock; for people."""
    token: str
    renewals: int = 0

    @classmethod
    def of_this_process(cls) -> Self:
        """Make a new claim for this process."""
        now = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
        job, token = os.environ.get(JOB, ""), secrets.token_hex(8)
        return cls(job, socket.gethostname(), machine(), os.getpid(), now, token)

    @classmethod
    def parse(cls, content: bytes | None) -> Self | None:
        """Read the claim in the content of a file; None if there is no file, or if it is incomplete."""
        try:
            return cls(**json.loads(content or b""))
        except (ValueError, TypeError):
            return None

    @property
    def content(self) -> bytes:
        """Content of the file OWNER with this claim."""
        return json.dumps(dataclasses.asdict(self), indent=2).encode()

    def has_ended_before(self, other: Self) -> bool:
        """Whether this owner has certainly ended, since `other` runs in this process."""
        if self.job and self.job == other.job:
            return True
        return self.machine == other.machine and not is_running(self.process)

    def __str__(self) -> str:
        job = f"custom job {self.job}, " if self.job else ""
        return f"{job}process {self.process} on {self.host}, since {self.since}"


class Owner:
    """Claims a folder for this process, and keeps the claim until `release`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._claim: Claim | None = None
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="owner", daemon=True)
        self.is_lost = False
        """Whether a renewal has found that another training has taken over."""

    def claim(self) -> None:
        """Become the owner; waits for up to `DEAD_S` if another one may be alive.

        Raises:
            UserError: if another owner is alive; or if the folder cannot be read or written.
        """
        claim = Claim.of_this_process()
        found = None
        while not self._folder.swap(OWNER, found, claim.content):
            found = self._folder.content(OWNER)
            other = Claim.parse(found)
            if found is not None and not (other and other.has_ended_before(claim)):
                found = self._watch(found)
            if found is not None:
                print(f"taking {self._folder.address} over from {_who(found)}, which has ended", flush=True)
        self._claim = claim
        self._thread.start()

    def _watch(self, found: bytes) -> bytes | None:
        """Wait until the file is known to be a dead owner's, or gone; return its content, or None."""
        path = self._folder.path(OWNER)
        print(f"{path} names {_who(found)}; waiting up to {DEAD_S:.0f} s for a sign of life", flush=True)
        deadline = time.monotonic() + DEAD_S
        while time.monotonic() < deadline:
            time.sleep(POLL_S)
            content = self._folder.content(OWNER)
            if content is None:
                return None
            if content != found:
                raise UserError(
                    f"another training writes its checkpoints to {self._folder.address}: {_who(content)}; wait "
                    "until it ends or stop it, or name another checkpoint folder"
                )
        return found

    def check(self) -> None:
        """Raise `UserError` if another training has taken over. Does nothing before `claim`."""
        if self._claim is None:
            return
        with self._lock:
            content = self._folder.content(OWNER)
        if not self._is_ours(content):
            other = _who(content) if content else "one that has ended"
            raise UserError(
                f"another training has taken {self._folder.address} over, since this one gave no sign of life for "
                f"{DEAD_S:.0f} s: {other}. This one ends, and leaves the checkpoints as they are"
            )

    def release(self) -> None:
        """Remove the claim, unless another training has taken over. Does nothing before `claim`."""
        if self._claim is None:
            return
        self._released.set()
        self._thread.join()
        with suppress(UserError):  # the next training then finds that this one has ended
            content = self._folder.content(OWNER)
            if self._is_ours(content):
                self._folder.swap(OWNER, content, None)
        self._claim = None

    def _is_ours(self, content: bytes | None) -> bool:
        found = Claim.parse(content)
        return bool(found and self._claim and found.token == self._claim.token)

    def _renew(self) -> None:
        assert self._claim
        renewed = self._claim
        while not self.is_lost and not self._released.wait(INTERVAL_S):
            renewed = dataclasses.replace(renewed, renewals=renewed.renewals + 1)
            # If this fails, the next checkpoint cannot be written either, and that error says why.
            with suppress(UserError, OSError), self._lock:
                content = self._folder.content(OWNER)
                self.is_lost = not (self._is_ours(content) and self._folder.swap(OWNER, content, renewed.content))


def _who(content: bytes) -> str:
    return str(Claim.parse(content) or "an unknown training")
