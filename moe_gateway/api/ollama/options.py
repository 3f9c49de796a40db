"""The fields of Ollama's API that steer the model, under the names of a chat request.

Sources: `docs/api.md` and `api/types.go` of Ollama, and the request fields of llama-server.
"""

from typing import Any, Final

from moe_gateway.errors import invalid_field, unsupported_field

Json = dict[str, Any]

SAME_NAME: Final = frozenset(
    (
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "stop"),
        *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    )
)
"""Options that have the same name in llama-server."""

EFFORTS: Final = {"low": "low", "medium": "medium", "high": "high", "max": "high"}
"""Levels of `think` -> `reasoning_effort`; Ollama itself sends `max` as `high` to gpt-oss."""


def sampling_of(options: Any) -> tuple[Json, list[str]]:
    """Map `options`; the second value names the options that have no effect here.

    Options that belong to loading a model (`num_ctx`, `num_gpu`, …) have none: the expert's own
    settings decide them. Raises `Refused` (400).
    """
    if options is None:
        return {}, []
    if not isinstance(options, dict):
        raise invalid_field("options", "an object")
    fields: Json = {}
    ignored = []
    for name, value in options.items():
        if value is None:
            continue
        if name in SAME_NAME:
            fields[name] = value
        elif name == "num_predict":
            fields |= _limit(value)
        else:
            ignored.append(name)
    return fields, ignored


def _limit(value: Any) -> Json:
    """Map `num_predict`; -1 (no limit) and -2 (until the context is full) set no limit here."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid_field("options.num_predict", "an integer")
    return {} if value < 0 else {"max_tokens": value}


def format_of(value: Any) -> Json:
    """Map `format`: empty, `json`, or a JSON schema. Raises `Refused` (400)."""
    if value is None or value == "":
        return {}
    if value == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(value, dict):
        schema = {"name": "answer", "schema": value, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    raise invalid_field("format", "'json' or a JSON schema")


def thinking_of(value: Any) -> Json:
    """Map `think`: a boolean, or a level. Raises `Refused` (400)."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"chat_template_kwargs": {"enable_thinking": value}}
    if isinstance(value, str) and value in EFFORTS:
        return {"reasoning_effort": EFFORTS[value]}
    raise invalid_field("think", f"true, false, or one of {', '.join(EFFORTS)}")


def logprobs_of(fields: Json) -> Json:
    """Map `logprobs` and `top_logprobs`, which a chat names alike."""
    if not fields.get("logprobs"):
        return {}
    count = fields.get("top_logprobs") or 0
    return {"logprobs": True} | ({"top_logprobs": count} if count else {})


def refuse(fields: Json, reasons: dict[str, str]) -> None:
    """Raise `Refused` (400) for the first of these fields that the request sets."""
    for name, reason in reasons.items():
        if fields.get(name):
            raise unsupported_field(name, reason)
