"""Addresses that a token may be sent to."""

import re

from trainer.errors import check

TRUSTED = (
    r"(?:https://)?(?:[a-z0-9-]+\.)+googleapis\.com(?::443)?/?"
    r"|(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/?"
)
"""Addresses that a token may be sent to."""


def check_endpoint(endpoint: str) -> None:
    """Raise `UserError` unless the address of an API is empty, Google's, or one of this machine.

    Whoever sets the parameters of a run could else have its account's token sent to a server of their own.
    """
    check(
        not endpoint or re.fullmatch(TRUSTED, endpoint) is not None,
        f"endpoint is {endpoint!r}; credentials are sent only to https://NAME.googleapis.com and to this machine "
        "(localhost, 127.0.0.1, [::1])",
    )
