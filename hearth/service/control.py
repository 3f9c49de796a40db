"""Requests to the `hearth up` that runs an instance: restart a service, serve another model.

It listens on a unix socket whose path is in `instance.json`. The folder of the socket is open only
to the user that started the instance, so no key is needed. A request is one line of JSON
(`Request`), and so is the reply (`Reply`).
"""

import socket
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.service.state import StateDir, read_instance

LONGEST_LINE: Final = 4096
"""Bytes of a request; a reply may be longer."""


class Request(BaseModel):
    """A request: `restart` the service `name`, or `serve` the model `name`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["restart", "serve"]
    name: str


class Reply(BaseModel):
    """A reply. `error` is one sentence, or None if the request was carried out."""

    model_config = ConfigDict(frozen=True)

    error: str | None = None


class ControlFailed(Exception):
    """The request was not carried out; `str(error)` states why in one sentence."""


def control_of(state: StateDir) -> Path | None:
    """Return the socket of the instance on a state directory; None if none is running."""
    instance = read_instance(state)
    return instance.control if instance is not None else None


def send(path: Path, request: Request) -> None:
    """Send a request and wait until it is done. Blocks; loading a large model takes minutes.

    Raises `ControlFailed`.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            connection.sendall(request.model_dump_json().encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
        reply = Reply.model_validate_json(line)
    except OSError as error:
        raise ControlFailed(f"`hearth up` does not answer: {error.strerror}.") from error
    except ValidationError as error:
        raise ControlFailed("`hearth up` ended before the request was carried out.") from error
    if reply.error is not None:
        raise ControlFailed(reply.error)
