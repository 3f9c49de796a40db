"""The check of callers' keys, and the answers to the errors of this package."""

import structlog
from fastapi import Request

from hearth.service.health import Health
from hearth.service.http_errors import BearerKeys, Refused, sent_key, wrong_key
from speech.errors import SpeechError

log = structlog.get_logger()


def known_caller(request: Request) -> None:
    """Let a request with a key pass once the engine is ready; raises `Refused` (401, 503).

    Every route but health and metrics depends on it.
    """
    keys, health = request.app.state.keys, request.app.state.health
    assert isinstance(keys, BearerKeys)
    assert isinstance(health, Health)
    key = sent_key(request)
    if key is None or not keys.opens(key):
        raise wrong_key("The setting SPEECH_KEY_FILES names the files of this service's keys.")
    if not health.ready:
        raise Refused(503, "not_ready", "; ".join(health.report().reasons))


def refusal_of(error: SpeechError) -> Refused:
    """Return the answer to an error of this package; log it if it is a fault of the service."""
    if error.status >= 500:
        log.error("speech_failed", code=error.code, reason=str(error))
    return Refused(error.status, error.code, str(error))
