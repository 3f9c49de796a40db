"""Refusals: what the caller did not get, why, and whether asking again makes sense."""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from math import ceil, isfinite
from typing import Final

from hearth.service import http_errors
from hearth.service.http_errors import Refused, invalid_json

Headers = list[tuple[bytes, bytes]]

NO_RETRY: Final = {"x-should-retry": "false"}
"""Official clients send 408, 409, 429 and 5xx three times unless this header is there."""

MAX_BODY: Final = "MOE_GATEWAY_MAX_BODY_BYTES"
"""The setting that limits a request."""

MAX_RETRY_SECONDS: Final = 60
"""The maximum of `retry-after`: official clients wait as long as it says, even an hour."""


def no_key() -> Refused:
    return http_errors.wrong_key("`hearth keys` lists and makes the keys of this gateway.")


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
    return Refused(503, "keys_unreadable", reason, headers={"retry-after": "1"})


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
    return Refused(429, code, message, headers={"retry-after": str(wait)})


def budget_spent(budget: int) -> Refused:
    """Without Retry-After: one client sleeps it in full, and it would be hours."""
    message = f"This key has spent its {budget} tokens of today (UTC)."
    return Refused(429, "insufficient_quota", message, headers=NO_RETRY)


def stopping() -> Refused:
    headers = {"connection": "close", "retry-after": "5"}
    return Refused(503, "stopping", "The gateway is stopping; ask again soon.", headers=headers)


def queue_full(own: int, seconds: int) -> Refused:
    """`own` requests of this key wait already; `seconds` is what one waits at present."""
    message = f"All experts are busy and {own} of your requests wait already; ask again soon."
    return Refused(429, "queue_full", message, headers={"retry-after": str(seconds)})


def missing_model() -> Refused:
    message = "Name the model of the session in the address: `?model=agent`."
    return Refused(400, "missing_required_parameter", message, param="model")


def no_realtime() -> Refused:
    message = "Realtime sessions need an agent, and this gateway has none."
    return Refused(404, "not_found", message)


def no_websocket(path: str) -> Refused:
    message = f"{path[:100]} is not a WebSocket; /v1/realtime is one."
    return Refused(404, "not_found", message)


def too_many_open(limit: int) -> Refused:
    message = (
        f"This key has {limit} realtime sessions open (setting MOE_GATEWAY_REALTIME_PER_KEY);"
        " close one first."
    )
    return Refused(429, "too_many_sessions", message, headers={"retry-after": "5"})


def busy(label: str, status: int) -> Refused:
    message = f"{label} is busy (HTTP {status})."
    return Refused(503, "busy", message, headers={"retry-after": "1"})


def key_refused(label: str) -> Refused:
    """The caller's key was right: 401 would send them searching in the wrong place."""
    message = f"{label} refuses the gateway's own key (its `key_file`)."
    return Refused(502, "upstream_refused_key", message, headers=NO_RETRY)


def deadline_passed(seconds: float) -> Refused:
    message = (
        f"The answer was not complete within {seconds:g} s (setting MOE_GATEWAY_DEADLINE_SECONDS)."
    )
    return Refused(504, "deadline_exceeded", message, headers=NO_RETRY)


def address_named(place: str) -> Refused:
    message = (
        f"{place} names an address, which a server would fetch from inside of the house: send the"
        " picture or the sound itself (`data:image/png;base64,…`). The setting"
        " MOE_GATEWAY_ALLOW_ADDRESSES lets addresses pass."
    )
    return Refused(400, "address_not_allowed", message, param=place)


def compressed(encoding: str) -> Refused:
    message = f"The body is compressed (Content-Encoding: {encoding[:50]}); send it as it is."
    return Refused(415, "unsupported_content_encoding", message)


def nested_too_deeply() -> Refused:
    """The limit is that of Python's own stack, some hundred levels."""
    return invalid_json("its brackets lie in each other hundreds of times")


def no_messages() -> Refused:
    """Without messages, llama-server would continue the empty prompt of the model's template."""
    message = "`messages` is empty: there is nothing to answer."
    return Refused(400, "empty_array", message, param="messages")


def too_large(limit: int) -> Refused:
    """The rest of the body stays unread, so the connection cannot be used again."""
    return http_errors.too_large(limit, MAX_BODY, headers={"connection": "close"})


def too_slow(seconds: float) -> Refused:
    message = f"The request did not come within {seconds:g} s (setting MOE_GATEWAY_BODY_SECONDS)."
    return Refused(408, "request_timeout", message, headers={"connection": "close"})


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


def models_are_managed() -> Refused:
    message = (
        "Models are not pulled, made or deleted through this API: `hearth models` fetches them, and"
        " experts are declared in the settings."
    )
    return Refused(403, "models_are_managed", message)


def no_speech(kind: str) -> Refused:
    """`kind` is stt or tts."""
    work = "speech into text" if kind == "stt" else "text into speech"
    message = f"No service here turns {work}; /api/experts tells what there is."
    return Refused(404, "model_not_found", message, param="model")


def none_healthy(model: str, reasons: Mapping[str, str]) -> Refused:
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    message = f"No server of {model!r} is ready. {listed or 'There is none.'}"
    return Refused(503, "model_unavailable", message, headers={"retry-after": "1"})


def machine_asleep(model: str, machine: str, seconds: float) -> Refused:
    """`seconds`: how long the wake will probably still take."""
    message = (
        f"The machine {machine!r} of {model!r} is being woken up, which takes about"
        f" {seconds:.0f} s. Try again then."
    )
    retry = {"retry-after": str(min(MAX_RETRY_SECONDS, ceil(seconds)))}
    return Refused(503, "machine_asleep", message, headers=retry)


def machine_failed(model: str, machine: str, reason: str) -> Refused:
    message = f"The machine {machine!r} of {model!r} did not wake up. {reason}"
    return Refused(503, "machine_not_waking", message, headers=NO_RETRY)


def invalid_wake_policy(policy: str) -> Refused:
    message = f"x-hearth-wake is 'wait', 'smaller' or 'refuse', not {policy[:50]!r}."
    return Refused(400, "invalid_value", message, param="x-hearth-wake")


def none_capable(need: str) -> Refused:
    message = f"No expert can do this: {need}. Ask a model by its name to send it anyway."
    return Refused(400, "no_capable_expert", message, param="model")


def invalid_field(name: str, expected: str) -> Refused:
    """Return the 400 of a field with a wrong type or value."""
    return Refused(400, "invalid_type", f"{name} must be {expected}.", param=name)


def unsupported_field(name: str, reason: str) -> Refused:
    return Refused(400, "unsupported_field", f"{name} does not work here: {reason}.", param=name)


def cannot_call_tools(model: str) -> Refused:
    message = (
        f"The model {model[:100]!r} has no template for tools, so it cannot be made to call one."
        " Ask a model that /v1/models lists with the capability `tools`, or `auto`."
    )
    return Refused(400, "no_capable_expert", message, param="tool_choice")


def cannot_rank(model: str) -> Refused:
    message = (
        f"The model {model[:100]!r} does not rank texts. Ask a model that /v1/models lists with the"
        " capability `rerank`, or `auto`."
    )
    return Refused(400, "no_capable_expert", message, param="model")


def cannot_draw(model: str) -> Refused:
    message = (
        f"The model {model[:100]!r} does not make images. Ask a model that /v1/models lists with"
        " the capability `images`, or `auto`."
    )
    return Refused(400, "no_capable_expert", message, param="model")


def waits(headers: Headers) -> Headers:
    """Return the server's `retry-after`, in seconds or as a date, limited to
    `MAX_RETRY_SECONDS`; a value in another format is omitted."""
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
