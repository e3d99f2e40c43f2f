"""Questions to services: many at the same time, each with its subject, which is unknown if there is no answer."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from pipeline import cloud
from pipeline.vertex.doctor.api import UnansweredError
from pipeline.vertex.doctor.findings import Finding, unknown

THREADS = 8
"""Questions at the same time."""

Ask = tuple[str, Callable[[], Iterable[Finding]]]
"""What is asked for, and the question."""


def ask(pool: ThreadPoolExecutor, questions: Iterable[Ask]) -> list[Future[list[Finding]]]:
    """Start to ask the questions; `answers` waits for their answers."""
    return [pool.submit(_attempted, subject, question) for subject, question in questions]


def answers(asked: Iterable[Future[list[Finding]]]) -> list[Finding]:
    """The findings of all answers, in the order of the questions."""
    return [finding for future in asked for finding in future.result()]


def _attempted(subject: str, ask: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of `ask`, or that `subject` is unknown, with the reason."""
    try:
        return list(ask())
    except UnansweredError as error:
        return [unknown(subject, reason=str(error))]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [unknown(f"{subject}: the reply is not as Google documents it ({cloud.brief(error)})")]
