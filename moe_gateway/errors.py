"""Refusals: what the caller did not get, why, and whether asking again makes sense."""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from math import ceil, isfinite
from typing import Final

import orjson

from hearth.openai_api.errors import error_body

Headers = list[tuple[bytes, bytes]]

NO_RETRY: Final = (b"x-should-retry", b"false")
"""Official clients send 408, 409, 429 and 5xx three times unless this header is there."""


MAX_RETRY_SECONDS: Final = 60
"""Official clients sleep what they are told: openai-node an hour, if it is told an hour."""


class Refused(Exception):
    """Raise it anywhere before the first byte; the caller gets OpenAI's error body.

    `status` is the HTTP status, `code` what programs look at, `headers` go along.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        *,
        param: str | None = None,
        headers: Headers | None = None,
    ) -> None:
        self.status, self.code, self.message, self.param = status, code, message, param
        self.headers = headers or []
        super().__init__(message)

    def body(self) -> bytes:
        """The JSON that OpenAI clients show to people."""
        kind = type_of(self.status)
        return orjson.dumps(error_body(self.message, type=kind, code=self.code, param=self.param))


def type_of(status: int) -> str:
    """OpenAI's error type for a status."""
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def no_key() -> Refused:
    """The first words are OpenAI's: LiteLLM tells a wrong key from a wrong request by them."""
    return Refused(
        401,
        "invalid_api_key",
        "Incorrect API key provided: send `Authorization: Bearer <key>` with a key of this"
        " gateway.",
        headers=[(b"www-authenticate", b'Bearer realm="hearth"')],
    )


def model_not_allowed(model: str, allowed: Iterable[str]) -> Refused:
    listed = ", ".join(allowed)
    message = f"This key may not use the model {model[:100]!r}. It may use: {listed}."
    return Refused(403, "model_not_allowed", message, param="model")


def scope_missing(model: str, scope: str) -> Refused:
    message = f"The model {model[:100]!r} needs a key with the scope {scope!r}."
    return Refused(403, "scope_missing", message, param="model")


def no_admin() -> Refused:
    return Refused(403, "scope_missing", "This needs a key with the scope 'admin'.")


def keys_unreadable(reason: str) -> Refused:
    return Refused(503, "keys_unreadable", reason, headers=[(b"retry-after", b"1")])


def forged_caller() -> Refused:
    message = "x-hearth-caller is for agents that pass it on; this one is not signed by a gateway."
    return Refused(403, "invalid_caller", message)


def caller_closed(name: str) -> Refused:
    message = f"The key {name!r}, on whose behalf this was asked, is closed."
    return Refused(403, "caller_closed", message)


def too_deep(limit: int) -> Refused:
    message = (
        f"The agent has asked itself {limit} times in a row (setting MOE_GATEWAY_MAX_DEPTH);"
        " does one of its workflows call itself through the gateway?"
    )
    return Refused(400, "recursion_too_deep", message, param="model")


def too_fast(what: str, limit: int, seconds: int) -> Refused:
    message = f"This key may use {limit} {what} a minute; ask again in {seconds} s."
    code = "requests_per_minute" if what == "requests" else "tokens_per_minute"
    wait = min(seconds, MAX_RETRY_SECONDS)
    return Refused(429, code, message, headers=[(b"retry-after", b"%d" % wait)])


def budget_spent(budget: int) -> Refused:
    """Without Retry-After: one client sleeps it in full, and it would be hours."""
    message = f"This key has spent its {budget} tokens of today (UTC)."
    return Refused(429, "insufficient_quota", message, headers=[NO_RETRY])


def stopping() -> Refused:
    headers = [(b"connection", b"close"), (b"retry-after", b"5")]
    return Refused(503, "stopping", "The gateway is stopping; ask again soon.", headers=headers)


def queue_full(own: int, seconds: int) -> Refused:
    """`own` requests of this key wait already; `seconds` is what one waits at present."""
    message = f"All experts are busy and {own} of your requests wait already; ask again soon."
    return Refused(429, "queue_full", message, headers=[(b"retry-after", b"%d" % seconds)])


def busy(label: str, status: int) -> Refused:
    message = f"{label} is busy (HTTP {status})."
    return Refused(503, "busy", message, headers=[(b"retry-after", b"1")])


def broken() -> Refused:
    return Refused(500, "internal_error", "The gateway failed; see its log.")


def key_refused(label: str) -> Refused:
    """The caller's key was right: 401 would send them searching in the wrong place."""
    message = f"{label} refuses the gateway's own key (its `key_file`)."
    return Refused(502, "upstream_refused_key", message, headers=[NO_RETRY])


def deadline_passed(seconds: float) -> Refused:
    message = (
        f"The answer was not complete within {seconds:g} s (setting MOE_GATEWAY_DEADLINE_SECONDS)."
    )
    return Refused(504, "deadline_exceeded", message, headers=[NO_RETRY])


def address_named(place: str) -> Refused:
    message = (
        f"{place} names an address, which a server would fetch from inside of the house: send the"
        " picture or the sound itself (`data:image/png;base64,…`). The setting"
        " MOE_GATEWAY_ALLOW_ADDRESSES lets addresses pass."
    )
    return Refused(400, "address_not_allowed", message, param=place)


def invalid_json(reason: str) -> Refused:
    return Refused(400, "invalid_json", f"The request is no valid JSON: {reason}.")


def compressed(encoding: str) -> Refused:
    message = f"The body is compressed (Content-Encoding: {encoding[:50]}); send it as it is."
    return Refused(415, "unsupported_content_encoding", message)


def nested_too_deeply() -> Refused:
    """The limit is that of Python's own stack, some hundred levels."""
    return invalid_json("its brackets lie in each other hundreds of times")


def no_messages() -> Refused:
    """llama-server would go on with nothing: it answers what the model's template begins with."""
    message = "`messages` is empty: there is nothing to answer."
    return Refused(400, "empty_array", message, param="messages")


def too_large(limit: int) -> Refused:
    message = f"The request is larger than {limit} bytes (setting MOE_GATEWAY_MAX_BODY_BYTES)."
    return Refused(413, "request_too_large", message, headers=[(b"connection", b"close")])


def too_slow(seconds: float) -> Refused:
    message = f"The request did not come within {seconds:g} s (setting MOE_GATEWAY_BODY_SECONDS)."
    return Refused(408, "request_timeout", message, headers=[(b"connection", b"close")])


def unknown_model(model: str, known: Iterable[str]) -> Refused:
    names = sorted(known)
    small = {name.lower(): name for name in names}
    told = model.lower()
    bare = told.rpartition("/")[2].partition(":")[0]  # `openai/…` of LiteLLM, `…:latest` of Ollama
    near = get_close_matches(told, small, n=1) or get_close_matches(bare, small, n=1)
    question = f" Did you mean {small[near[0]]!r}?" if near else ""
    listed = ", ".join(names) or "none yet"
    message = f"The model {model[:100]!r} does not exist.{question} Known models: {listed}."
    return Refused(404, "model_not_found", message, param="model")


def no_speech(kind: str) -> Refused:
    """`kind` is stt or tts."""
    work = "speech into text" if kind == "stt" else "text into speech"
    message = f"No service here turns {work}; /api/experts tells what there is."
    return Refused(404, "model_not_found", message, param="model")


def none_healthy(model: str, reasons: Mapping[str, str]) -> Refused:
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    message = f"No server of {model!r} is ready. {listed or 'There is none.'}"
    return Refused(503, "model_unavailable", message, headers=[(b"retry-after", b"1")])


def none_capable(need: str) -> Refused:
    message = f"No expert can do this: {need}. Ask a model by its name to send it anyway."
    return Refused(400, "no_capable_expert", message, param="model")


def waits(headers: Headers) -> Headers:
    """How long a server asks to wait, as seconds or as a date, but never longer than official
    clients may be sent to sleep; what is neither is left out."""
    told: Headers = []
    for name, value in headers:
        if name == b"retry-after" and (seconds := _seconds(value)) is not None:
            told.append((name, b"%d" % ceil(min(max(seconds, 0), MAX_RETRY_SECONDS))))
        elif name == b"retry-after-ms" and (number := _number(value)) is not None:
            told.append((name, b"%d" % min(max(number, 0), MAX_RETRY_SECONDS * 1000)))
    return told


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _seconds(value: bytes) -> float | None:
    if (number := _number(value)) is not None:
        return number
    try:
        at = parsedate_to_datetime(value.decode("latin-1"))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
