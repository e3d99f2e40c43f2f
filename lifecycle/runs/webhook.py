"""Posts a message to a webhook such as Slack's. Its address is a secret: no message and no template has it."""

import base64
import threading
import time
from collections.abc import Callable

from lifecycle.vertex import TIMEOUT_S, VertexRegion, api_session, reported_errors, service_address
from trainer.errors import UserError

WEBHOOK_VARIABLE = "MSINET_WEBHOOK"
"""Environment variable with the address, on this machine and in a pod of Kubeflow."""
LIMIT_S = 30.0
PAUSE_S = 2.0
"""Time before the second attempt, which is the last."""


def post(text: str, address: Callable[[], str], limit_s: float = LIMIT_S) -> str:
    """Post {"text": `text`} and return what went wrong, such as `it answers 404`. Empty if nothing did.

    A thread does it. The library requests limits the time of each read, but not of all reads together, nor of the
    search for a host.

    Args:
        text: The message.
        address: Finds the address. It may raise `UserError`.
        limit_s: How long to wait for both.
    """
    outcomes = [f"no answer within {limit_s:g} s"]
    thread = threading.Thread(target=lambda: outcomes.append(_post(text, address, limit_s)), daemon=True)
    thread.start()
    thread.join(limit_s)
    return outcomes[-1]


def _post(text: str, address: Callable[[], str], limit_s: float) -> str:
    import requests  # type: ignore[import-untyped]

    wrong = ""
    for pause in (0.0, PAUSE_S):
        time.sleep(pause)
        try:
            url = address().strip()
            reply = requests.post(url, json={"text": text}, timeout=limit_s, allow_redirects=False)
        except UserError as error:
            return f"its address cannot be read ({error})"
        except Exception as error:  # its text may have the address
            wrong = type(error).__name__
            continue
        if reply.status_code // 100 == 2:
            return ""
        wrong = f"it answers {reply.status_code}"
        if reply.status_code < 500:
            break
    return wrong


def read_secret(name: str, region: VertexRegion) -> str:
    """The content of a secret of Secret Manager. Raises `UserError` if it cannot be read.

    Example: `projects/p/secrets/hook` names its latest version, `projects/p/secrets/hook/versions/2` another.
    """
    version = name if "/versions/" in name else f"{name}/versions/latest"
    with reported_errors(name):
        url = f"{service_address(region, 'secretmanager')}/v1/{version}:access"
        reply = api_session(region).get(url, timeout=TIMEOUT_S)
        reply.raise_for_status()
    return base64.b64decode(reply.json()["payload"]["data"]).decode()
