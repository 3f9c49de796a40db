"""The client's side of a realtime session: events as JSON, and refusals of events."""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from pipecatapp.voice.messages import Json

Model = TypeVar("Model", bound=BaseModel)

INVALID: Final = "invalid_request_error"


class Socket(Protocol):
    """The WebSocket of a client. Both methods raise `CallerLeft` when it has disconnected."""

    async def receive(self) -> str | bytes: ...

    async def send(self, message: str | bytes) -> None: ...


class EventRefused(Exception):
    """An event of the client has no effect. `str(error)` is the message for the client."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        self.code, self.param = code, param
        super().__init__(message)

    def body(self, event_id: str | None = None) -> Json:
        """Return the `error` of an error event; `event_id` is that of the client's event."""
        return {
            "type": INVALID,
            "code": self.code,
            "message": str(self),
            "param": self.param,
            "event_id": event_id,
        }


class Events:
    """Sends server events."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def send(self, type: str, **fields: Any) -> None:
        """Send one event. Raises `CallerLeft`."""
        event = {"type": type, "event_id": new_id("event"), **fields}
        await self._socket.send(json.dumps(event))


def new_id(kind: str) -> str:
    """Return an unused id, such as `item_…`."""
    return f"{kind}_{uuid.uuid4().hex[:21]}"


def parsed(model: type[Model], body: Any, *, within: str = "") -> Model:
    """Validate a part of an event, which is at the path `within` it. Raises `EventRefused`."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in (within, *first["loc"]) if part != "")
        unknown = first["type"] == "extra_forbidden"
        code = "unknown_parameter" if unknown else "invalid_value"
        raise EventRefused(code, f"{path}: {first['msg']}.", path or None) from error


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return `old` with the fields of `new`; objects in both are merged field by field."""
    result = dict(old)
    for name, value in new.items():
        before = result.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[name] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result
