"""Starts a Chromium that is installed here, and talks with it by the DevTools protocol over a pipe.

https://chromedevtools.github.io/devtools-protocol; a pipe is open to nobody else, as a port would be.
"""

import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from trainer import scratch
from trainer.errors import UserError
from trainer.text import shown

VARIABLE = "CHROME_PATH"
"""Environment variable with the path of the browser; Lighthouse has the same."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Programs to look for on the PATH."""
APPLICATIONS = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
"""Where macOS has it."""
INSTALL = f"install one (chromium, or Google Chrome), or set {VARIABLE} to its path"
ARGUMENTS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-dev-shm-usage",  # containers have little of it
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--deny-permission-prompts",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--mute-audio",
)
NO_SANDBOX = "--no-sandbox"
"""Flag of the browser, and of `check`."""
PIPES = 'exec "$@" 3<&0 4>&1 </dev/null >&2'
"""Program of a shell: the browser reads commands from file 3, and writes answers to file 4."""
END = b"\0"
"""Of each message."""
CLOSING_S = 2.0

Event = Callable[[str, dict[str, Any]], None]


def find_browser() -> str:
    """Path of the browser: VARIABLE, the first of NAMES on the PATH, or one of APPLICATIONS.

    Raises:
        UserError: there is none, or VARIABLE names none.
    """
    if given := os.environ.get(VARIABLE):
        found = shutil.which(given)
        if found is None:
            raise UserError(
                f"{VARIABLE} is {given!r}, which is no program; set it to the path of a Chromium or Chrome"
            )
        return found
    installed = (path for path in (*map(shutil.which, NAMES), *map(shutil.which, APPLICATIONS)) if path)
    found = next(installed, None)
    if found is None:
        raise UserError(f"no Chromium was found to show a page with: {INSTALL}; or give a picture of the page")
    return found


class Browser:
    """A running browser with one empty page. Made by `running`.

    Attributes:
        on_event: called with the name and the parameters of each event, while an answer is waited for.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", program: str, errors: pathlib.Path, end: float) -> None:
        self._process, self._program, self._errors, self._end = process, program, errors, end
        self._received = bytearray()
        self._number = 0
        self._session: str | None = None
        self.on_event: Event = lambda name, values: None

    def attach(self) -> None:
        """Open an empty page, which all later commands are for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command.

        Raises:
            CommandError: the browser refuses it.
            TimeoutError: there is no answer in time.
            UserError: the browser has ended.
        """
        number = self.send(method, **parameters)
        while True:
            message = self._receive(self._end)
            if message.get("id") == number:
                if "error" in message:
                    raise CommandError(str(message["error"].get("message")))
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def send(self, method: str, **parameters: Any) -> int:
        """Send a command without waiting for its answer; returns its number."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        # The requests of all frames and workers are those of the browser, not of its page.
        if self._session is not None and not method.startswith("Fetch."):
            message["sessionId"] = self._session
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + END)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        return self._number

    def wait(self, condition: Callable[[], bool], most_s: float | None = None) -> bool:
        """Take events until a condition holds; False if it does not within `most_s`.

        Raises:
            TimeoutError: the time of this browser is over.
            UserError: the browser has ended.
        """
        end = self._end if most_s is None else min(self._end, time.monotonic() + most_s)
        while not condition():
            try:
                self._note(self._receive(end))
            except TimeoutError:
                if end == self._end:
                    raise
                return False
        return True

    def _note(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.on_event(message["method"], message.get("params", {}))

    def _receive(self, end: float) -> dict[str, Any]:
        assert self._process.stdout
        file = self._process.stdout.fileno()
        searched = 0
        while (stop := self._received.find(END, searched)) < 0:
            searched = len(self._received)
            left_s = end - time.monotonic()
            if left_s <= 0 or not select.select([file], [], [], left_s)[0]:
                raise TimeoutError
            if not (part := os.read(file, 2**20)):
                raise self._ended()
            self._received += part
        message: dict[str, Any] = json.loads(self._received[:stop])
        del self._received[: stop + 1]
        return message

    def _ended(self) -> UserError:
        """The error about a browser that has ended, with what it said last."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING_S)
        said = self._errors.read_text(errors="replace")
        if "sandbox" in said.lower():
            return UserError(
                f"{self._program} does not start with its sandbox, as for root and in many containers; run this "
                f"as another user, or, for a page that you trust, with {NO_SANDBOX}"
            )
        last = next((shown(line) for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
        ended = f"{self._program} ended with status {self._process.returncode} ({last})"
        return UserError(f"{ended}; try it by itself, or {INSTALL}")


class CommandError(Exception):
    """A command that the browser refuses."""


@contextmanager
def running(most_s: float, sandbox: bool = True) -> Iterator[Browser]:
    """Start the browser with a profile of its own; it ends with the context, or if this process ends.

    Args:
        most_s: time for everything; after it, each call raises `TimeoutError`.
        sandbox: whether what pages run is kept in the browser's sandbox.

    Raises:
        UserError: there is no browser, or it does not start.
    """
    program = find_browser()
    end = time.monotonic() + most_s
    with scratch.folder(scratch.LOCAL) as folder:
        errors = folder / "errors.txt"
        arguments = [program, *ARGUMENTS, f"--user-data-dir={folder / 'profile'}"]
        arguments += [] if sandbox else [NO_SANDBOX]
        with errors.open("wb") as said:
            process = _start(["/bin/sh", "-c", PIPES, "sh", *arguments], said)
        try:
            browser = Browser(process, program, errors, end)
            browser.attach()
            yield browser
        finally:
            _close(process)


def _start(command: list[str], errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    # In a group of its own, which Ctrl-C does not reach, and which is ended as a whole.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    )


def _close(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()  # type: ignore[union-attr]  # the browser then ends
    try:
        process.wait(CLOSING_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
