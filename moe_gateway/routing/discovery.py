"""Decode the properties of instances that Consul and the servers report."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from hearth.openai_api.errors import message_of
from hearth.service.names import LLAMA_EXPERT, PIPECATAPP, SPEECH_STT, SPEECH_TTS
from moe_gateway.settings import InstanceSettings, Settings

if TYPE_CHECKING:
    from hearth.cluster.watch import ServiceInstance

EXPERT_META: Final = (
    "slots",
    "context",
    "tools",
    "vision",
    "embeddings",
    "rerank",
    "images",
    "cost",
    "stops_unary",
    "auto",
    "chat",
    "structured",
)
"""Properties of an expert in Consul that are also settings of an instance."""

LISTS_META: Final = ("aliases", "languages", "domains", "fallback")
"""The same, as lists separated by commas."""

SPEECH: Final = {SPEECH_STT: "stt", SPEECH_TTS: "tts"}

MODEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,99}")
"""Ids that are valid in a header and a label; others are not offered."""


def is_wanted(service: str) -> bool:
    known = service == PIPECATAPP or service in SPEECH
    return known or service.startswith(f"{LLAMA_EXPERT}-")


def settings_of(found: "ServiceInstance", settings: Settings) -> InstanceSettings:
    """Return the settings of an instance in Consul. Raises `ValidationError` if its meta is not
    valid."""
    host = f"[{found.address}]" if ":" in found.address else found.address
    address = {"url": f"{found.meta.get('scheme', 'http')}://{host}:{found.port}"}
    if found.service == PIPECATAPP:
        return InstanceSettings.model_validate(
            {**address, "lists_models": True, "key_file": settings.agent_key_file}
        )
    if found.service in SPEECH:
        return InstanceSettings.model_validate(
            {
                **address,
                **_told(found.meta),
                "speech": SPEECH[found.service],
                "key_file": settings.speech_key_file,
            }
        )
    return InstanceSettings.model_validate(
        {
            **address,
            **_told(found.meta),
            "expert": found.meta.get("expert") or found.service.removeprefix(f"{LLAMA_EXPERT}-"),
            "key_file": settings.expert_key_file,
        }
    )


def _told(meta: Mapping[str, str]) -> dict[str, Any]:
    lists = {
        name: [one.strip() for one in meta[name].split(",") if one.strip()]
        for name in LISTS_META
        if meta.get(name)
    }
    return {name: meta[name] for name in EXPERT_META if meta.get(name)} | lists


def model_told(found: "ServiceInstance") -> str | None:
    """Return the model of an instance in Consul; None if its name is not valid in a header."""
    name = found.meta.get("model", "")
    return name if MODEL_ID.fullmatch(name) else None


def models_of(body: bytes) -> dict[str, str]:
    """Return id -> the scope that its callers need; empty if the server does not state it."""
    try:
        found = orjson.loads(body)
        models = {str(one["id"]): str(one.get("scope") or "") for one in found["data"]}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return {}
    return {name: scope for name, scope in models.items() if MODEL_ID.fullmatch(name)}


def busy_slots(body: bytes) -> int:
    try:
        found = orjson.loads(body)
        return sum(bool(slot["is_processing"]) for slot in found)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return 0


def words(body: bytes) -> str:
    """The words of an error body or of one of our health reports."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")[:200]
    if isinstance(found, dict) and isinstance(found.get("reasons"), list):
        return "; ".join(str(reason) for reason in found["reasons"])[:200]
    return message_of(found)[:200]
