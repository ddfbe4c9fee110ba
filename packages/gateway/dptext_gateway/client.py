"""A client of the gateway, which retries under one idempotency key until it has the answer."""

from __future__ import annotations

import json
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import httpx

from dptext.errors import DPTextError
from dptext.text.formats import Scalar

_AGAIN: Final = (408, 409, 429, 502, 503, 504)  # in flight, too much, or a gateway or proxy that comes back
_LONGEST: Final = 30.0  # seconds between two tries where the gateway names none


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that TLS trusts. Reading them takes longer than a request, so they are read once."""
    return httpx.create_ssl_context()


class GatewayError(DPTextError):
    """The gateway gave no answer.

    Attributes:
        idempotency_key: the key that asks for the same answer again, which is charged once.
        status: the HTTP status; None if nobody answered.
        problem: fields of the gateway's problem, such as "type", "detail", "left".
    """

    def __init__(self, idempotency_key: str, status: int | None, problem: dict[str, Any]) -> None:
        said = problem.get("detail") or (f"HTTP {status}." if status else "Nobody answered.")
        again = f" idempotency_key={idempotency_key!r} asks for the same answer again."
        super().__init__(said + (again if status is None or status < 400 or status in _AGAIN else ""))
        self.idempotency_key, self.status, self.problem = idempotency_key, status, problem


def privatize(
    url: str,
    key: str,
    model: str,
    records: Sequence[Mapping[str, Scalar]],
    *,
    idempotency_key: str | None = None,
    patience: float = 600.0,
    **settings: Any,
) -> dict[str, Any]:
    """Privatize a few records. The answer has "releases" as JSON Lines and "certificate" as JSON text.

    `dptext explain FILE` verifies releases in a file of the name that the certificate has as "output", with the
    certificate beside it as `FILE.guarantee.json`.

    Args:
        url: address of the gateway.
        key: an API key with the scope "privatize".
        model: name of the model.
        records: each with "text", and with "id", "label", "author" if there are any.
        idempotency_key: the key of an earlier call whose answer was lost; a new key charges anew.
        patience: seconds after which no further try begins; an attempt that died blocks the next for one minute.
        settings: `max_per_author`, `delta`.

    Raises:
        GatewayError: the request was refused, or nobody answered within `patience`. The error holds no record.
    """
    name, asked = idempotency_key or str(uuid.uuid4()), f"{url.rstrip('/')}/v1/models/{quote(model, safe='')}/privatize"
    headers = {"Authorization": f"Bearer {key.strip()}", "Idempotency-Key": name, "Content-Type": "application/json"}
    asking = {"records": [*map(dict, records)], **settings}
    body = json.dumps(asking)  # in ASCII, so that no encoding error quotes a record
    end, pause = time.monotonic() + patience, 1.0
    while True:
        status, found, wait, hopeless = None, None, pause, False
        try:
            answer = httpx.post(asked, content=body, headers=headers, timeout=120, verify=_trusted())
            status, said = answer.status_code, answer.headers.get("Retry-After", "")
            wait = float(said) if said.isdigit() else pause
            found = answer.json()
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL):  # they quote the key
            found, hopeless = {"detail": "Expected an address like https://HOST, and keys of visible ASCII."}, True
        except (httpx.RequestError, ValueError) as error:  # nobody answered, or a proxy showed its page to sign in
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                found, hopeless = {"detail": "The certificate at this address is not trusted."}, True
        found = found if isinstance(found, dict) else {}
        if status == 200 and "releases" in found:
            return found
        if hopeless or status not in (None, *_AGAIN) or time.monotonic() + wait > end:
            raise GatewayError(name, status, found)
        time.sleep(wait)
        pause = min(2 * pause, _LONGEST)
