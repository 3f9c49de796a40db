"""Signatures of webhooks.

standard   HMAC-SHA256 of id, time and body (https://www.standardwebhooks.com)
github     HMAC-SHA256 of the body, in `X-Hub-Signature-256`, as GitHub, Gitea and Forgejo send
bearer     the secret itself in `Authorization: Bearer …`, for devices that cannot sign
"""

import base64
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

Signature = Literal["standard", "github", "bearer"]
SIGNATURES: Final[tuple[Signature, ...]] = get_args(Signature)
TOLERANCE: Final = 300
"""Seconds by which the time of a delivery may differ from ours, so that nobody repeats an old
one."""
PREFIX: Final = "whsec_"
"""Standard Webhooks: a secret is this and Base64."""
DELIVERY_IDS: Final = (
    "webhook-id", "x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "idempotency-key"
)  # fmt: skip
"""Headers with the id that a sender repeats when it sends a delivery again."""
SECRET_HEADERS: Final = frozenset(("authorization", "cookie", "proxy-authorization"))


class NotSigned(PermissionError):
    """The delivery was not signed with the secret of the trigger; the message says how to."""


def new_secret(signature: Signature) -> str:
    """Return a random secret of 32 bytes in the form that senders of this kind take."""
    if signature == "standard":
        return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_urlsafe(32)


def check_signature(
    signature: Signature, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> None:
    """Raise `NotSigned` unless the sender knows the secret. Names of headers are lower case."""
    _CHECKS[signature](secret, headers, body, now)


def delivery_id(headers: Mapping[str, str]) -> str | None:
    """Return the sender's id of a delivery, at most 200 characters; None if there is none."""
    return next((headers[name][:200] for name in DELIVERY_IDS if headers.get(name)), None)


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> None:
    id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signed = hmac.digest(_key(secret), f"{id}.{time}.".encode() + body, "sha256")
    wanted = b"v1," + base64.b64encode(signed)
    sent = headers.get("webhook-signature", "").encode()
    if not id or not any(hmac.compare_digest(one, wanted) for one in sent.split()):
        raise NotSigned(
            "The headers webhook-id, webhook-timestamp and webhook-signature are missing or do "
            "not fit the secret of this trigger."
        )
    if not time.isascii() or not time.isdecimal() or abs(now - int(time[:12])) > TOLERANCE:
        raise NotSigned(
            f"The delivery is more than {TOLERANCE} seconds old, or the clock of its sender or "
            "of this machine is wrong."
        )


def _key(secret: str) -> bytes:
    """Return the key of a Standard Webhooks secret; one without the prefix is used as it is."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        return secret.encode()


def _github(secret: str, headers: Mapping[str, str], body: bytes, _now: float) -> None:
    wanted = "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()
    sent = headers.get("x-hub-signature-256", "")
    if not hmac.compare_digest(sent.encode(), wanted.encode()):
        raise NotSigned(
            "The header X-Hub-Signature-256 is missing or does not fit the secret of this trigger."
        )


def _bearer(secret: str, headers: Mapping[str, str], _body: bytes, _now: float) -> None:
    kind, _, sent = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(sent.strip().encode(), secret.encode()):
        raise NotSigned("Send the secret of this trigger as `Authorization: Bearer <secret>`.")


_CHECKS: Final[Mapping[Signature, Callable[[str, Mapping[str, str], bytes, float], None]]] = {
    "standard": _standard,
    "github": _github,
    "bearer": _bearer,
}
