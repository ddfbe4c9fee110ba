"""A client of the gateway: it tries again, under one idempotency key, until it has the one answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import httpx

_AGAIN = (409, 429, 503)


def privatize(
    url: str, key: str, model: str, records: Sequence[dict[str, str]], *, tries: int = 6, **settings: Any
) -> dict[str, Any]:
    """The answer to a few records: "releases" as JSON Lines, and "certificate" as JSON text.

    Args:
        url: of the gateway.
        key: an API key with the scope "privatize".
        model: its name.
        records: with "text", and "id", "label", "author" where there are any.
        tries: how often the network or the gateway may fail.
        settings: `max_per_author`, `delta`.

    Raises:
        httpx.HTTPError: it was refused, or failed each time.
    """
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": str(uuid.uuid4())}
    for left in reversed(range(tries)):
        try:
            answer = httpx.post(
                f"{url}/v1/models/{model}/privatize",
                json={"records": list(records), **settings},
                headers=headers,
                timeout=120,
            )
            if answer.status_code not in _AGAIN or not left:
                return dict(answer.raise_for_status().json())
            time.sleep(min(float(answer.headers.get("Retry-After", 1)), 5.0))
        except httpx.TransportError:
            if not left:
                raise
            time.sleep(1)
    raise AssertionError("the last try returns or raises")
