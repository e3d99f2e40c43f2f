"""Messages to a webhook: a server on loopback takes them, refuses them, or never answers."""

import time

import pytest

from lifecycle.runs import webhook
from tests.hooks import SECRET
from trainer.errors import UserError


@pytest.mark.parametrize(
    ("statuses", "requests", "wrong"),
    [([200], 1, ""), ([500, 200], 2, ""), ([500, 503], 2, "503"), ([404], 1, "404"), ([302], 1, "302")],
)
def test_message_is_posted_and_repeated_once_if_the_server_fails(hook, statuses, requests, wrong):
    hook.statuses = statuses
    said = webhook.post("promoted", lambda: hook.address)
    assert hook.received == requests * [(f"/services/{SECRET}", {"text": "promoted"})]
    assert said.endswith(wrong)
    assert bool(said) == bool(wrong)
    assert SECRET not in said


def test_server_that_never_answers_is_not_waited_for_longer_than_the_limit(hook):
    start = time.monotonic()
    said = webhook.post("promoted", lambda: hook.address, limit_s=0.3)
    assert 0.3 <= time.monotonic() - start < 5
    assert hook.received
    assert said
    assert SECRET not in said


@pytest.mark.parametrize("address", ["", SECRET, f"https://{SECRET}.invalid/", f"http://127.0.0.1:1/{SECRET}"])
def test_address_that_leads_nowhere_is_not_told(hook, address):
    said = webhook.post("promoted", lambda: address)
    assert said
    assert SECRET not in said


def test_secret_that_cannot_be_read_is_named():
    def address():
        raise UserError("projects/p/secrets/hook: permission denied")

    assert "projects/p/secrets/hook" in webhook.post("promoted", address)
