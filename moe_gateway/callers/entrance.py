"""Who may come in with what: the key, the method, the size, the shape, the limits."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import orjson
import structlog
from starlette.types import Receive, Scope

from hearth.service.http_errors import Refused, internal_error, is_json, wrong_content_type
from moe_gateway.asked import CHAT, HOT, NO_NEEDS, SPEECH, Asked
from moe_gateway.callers.behalf import HEADER, read
from moe_gateway.callers.corked import Line
from moe_gateway.callers.keyring import Keyring
from moe_gateway.callers.limits import UNLIMITED, Caller
from moe_gateway.callers.listeners import Listeners
from moe_gateway.errors import (
    Headers,
    caller_closed,
    compressed,
    forged_caller,
    missing_model,
    nested_too_deeply,
    no_key,
    no_messages,
    stopping,
    too_large,
    too_slow,
)
from moe_gateway.instances import Instance
from moe_gateway.messages.reply import MessagesReply
from moe_gateway.messages.request import Request as MessagesRequest
from moe_gateway.messages.request import read_request as read_messages
from moe_gateway.relay import JSON, CallerGone, Reply, read_body
from moe_gateway.responses.reply import Keep, ResponsesReply
from moe_gateway.responses.request import Request, decoded, encoded, read_request
from moe_gateway.responses.store import ResponseStore
from moe_gateway.routing.addresses import refuse_addresses
from moe_gateway.routing.audio import form_look
from moe_gateway.routing.body import WORTH_KEEPING, Kind, Look, check_documents, look_at
from moe_gateway.routing.choice import AUTO, choose, choose_named, having, known_models
from moe_gateway.routing.prefix import Prefixes
from moe_gateway.settings import Settings
from moe_gateway.translated import TranslatedReply
from moe_gateway.upstream.headers import Heard, session_of

if TYPE_CHECKING:
    from moe_gateway.ollama.reply import OllamaReply

log = structlog.get_logger()


class AtOnce(Exception):
    """Nobody has to be asked: `answer` is the body of the answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class Entrance:
    """Reads the requests of the hot routes, and refuses those that nobody may ask.

    `draining` is set when the service stops: then it refuses all.
    """

    def __init__(
        self,
        settings: Settings,
        keys: Keyring,
        instances: list[Instance],
        responses: ResponseStore,
    ) -> None:
        self.settings, self.keys, self.instances = settings, keys, instances
        self.responses = responses
        self.listeners = Listeners(settings.listeners, keys)
        self.prefixes = Prefixes()
        self.draining = False

    async def read(
        self, scope: Scope, receive: Receive, reply: Reply, told: Heard, line: Line | None
    ) -> Asked:
        """The whole request, of somebody who may ask it. Raises `Refused`, `CallerGone`
        or `AtOnce`."""
        try:
            caller, depth = self._admit(scope, told.own)
            body = None if line is None else line.body()
            if body is None:
                body = await self._body(scope, receive)
            elif len(body) > self.settings.max_body_bytes:
                raise too_large(self.settings.max_body_bytes)
            asked = self._asked(scope, reply, told, body, caller, depth)
            self._permit(asked)
        except RecursionError as error:
            raise nested_too_deeply() from error
        except (CallerGone, AtOnce):
            raise
        except Refused as refused:
            raise _encoded(refused, scope["headers"]) from refused
        except Exception as error:
            log.exception("request_not_read", request_id=reply.request_id.decode())
            raise internal_error() from error
        return asked

    def _asked(
        self, scope: Scope, reply: Reply, told: Heard, body: bytes, caller: Caller, depth: int
    ) -> Asked:
        """What the body asks for. Raises `Refused`."""
        path, headers, notice = scope["path"], scope["headers"], ""
        kind, content_type = HOT[path], told.own.get(b"content-type", JSON)
        if kind != "stt":
            content_type = _checked(content_type)
        if isinstance(reply, TranslatedReply):
            kind, path, body, notice = self._translated(reply, path, body, caller)
        look = form_look(content_type, body) if kind == "stt" else look_at(body)
        _check(kind, body, look)
        if kind != "stt" and not self.settings.allow_addresses:
            refuse_addresses(body)
        if kind == "chat" and len(body) >= WORTH_KEEPING and self.settings.stable_prefixes:
            body, notice = self._stable(body, look, told, caller, notice)
        asked = Asked(kind, path, headers, told, body, look, caller, depth, content_type)
        if notice:
            asked.notice = notice
        return asked

    def _stable(
        self, body: bytes, look: Look, told: Heard, caller: Caller, notice: str
    ) -> tuple[bytes, str]:
        """The body without volatile lines at the beginning of its prompt, and the notice with what
        was moved. An agent reads the last turn itself, so nothing is moved there."""
        if any(one.settings.lists_models for one in having(look.model, self.instances)):
            return body, notice
        stable = self.prefixes.stable(caller.name, session_of(told.own), body, look)
        return stable.body, notice + stable.notice

    def _translated(
        self, reply: TranslatedReply, path: str, body: bytes, caller: Caller
    ) -> tuple[Kind, str, bytes, str]:
        """Kind, path and body of the request that asks the same, and what its caller has to know
        of it. Raises `Refused` or `AtOnce`."""
        request: Request | MessagesRequest
        if isinstance(reply, ResponsesReply):
            request = read_request(decoded(body), self.responses.of(caller))
            reply.expect(request, self._keep(caller, request, len(body)))
        elif isinstance(reply, MessagesReply):
            request = read_messages(decoded(body))
            reply.expect(request)
        else:
            return self._of_ollama(cast("OllamaReply", reply), path, body, caller)
        return "chat", CHAT, encoded(request.chat), request.notice

    def _of_ollama(
        self, reply: "OllamaReply", path: str, body: bytes, caller: Caller
    ) -> tuple[Kind, str, bytes, str]:
        request = reply.read(path, decoded(body), known_models(self.instances))
        if request.at_once is not None:
            self._check_ready(request.body["model"], caller)
            raise AtOnce(reply.at_once(request.at_once))
        return request.kind, request.target, encoded(request.body), request.notice

    def admit_session(
        self, scope: Scope, own: Mapping[bytes, bytes], model: str
    ) -> tuple[Caller, str]:
        """Admit a realtime session, which counts as one request; return its caller and its model,
        which is the default for a name that no server has. Raises `Refused`.
        """
        caller = self.listeners.caller_of(scope, own)
        if caller is None:
            raise no_key()
        if self.draining:
            raise stopping()
        if not model:
            raise missing_model()
        model = self._known(model)
        self._check_ready(model, caller)
        caller.admit(model, self.scope_of(model))
        return caller, model

    def _known(self, model: str) -> str:
        """The model, or the default model for a name that no server has."""
        default = self.settings.default_model
        return default if default and model not in known_models(self.instances) else model

    def _check_ready(self, model: str, caller: Caller) -> None:
        """Check that this caller could ask this model now. Raises `Refused`."""
        model = self._known(model)
        if caller.limits is not UNLIMITED:
            caller.check(model, self.scope_of(model))
        if model == AUTO:
            choose(model, NO_NEEDS, self.instances)
        else:
            choose_named(model, having(model, self.instances), NO_NEEDS, self.instances)

    def _keep(self, caller: Caller, request: Request, size: int) -> Keep | None:
        """Return what stores the answer; None where it is not to be stored, or too large."""
        own = self.responses.of(caller)
        if request.fields.get("store") is False or not own.takes(size):
            return None
        turns = (*request.before, encoded(request.items))

        def keep(response: dict[str, Any]) -> None:
            output = orjson.dumps(response["output"])
            own.keep(response["id"], orjson.dumps(response), (*turns, output))
            self.responses.make_room()

        return keep

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """A body that comes in pieces."""
        seconds = self.settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                return await read_body(scope["headers"], receive, self.settings.max_body_bytes)
        except TimeoutError as error:
            raise too_slow(seconds) from error

    def _admit(self, scope: Scope, own: Mapping[bytes, bytes]) -> tuple[Caller, int]:
        """Who calls, or on whose behalf an agent does, and how many agents stand between."""
        caller = self.listeners.caller_of(scope, own)
        if caller is None:
            raise no_key()
        if scope["method"] != "POST":
            message = f"{scope['path']} takes POST, not {scope['method']}."
            raise Refused(405, "method_not_allowed", message, headers={"allow": "POST"})
        if self.draining:
            raise stopping()
        if behalf := own.get(HEADER):
            return self._who_asked_first(caller, behalf)
        return caller, 0

    def _who_asked_first(self, caller: Caller, told: bytes) -> tuple[Caller, int]:
        secrets = {one.key for one in self.instances if one.settings.lists_models}
        behalf = read(told, secrets) if self.keys.is_of_house(caller) else None
        if behalf is None:
            raise forged_caller()
        first = self.keys.named(behalf.name)
        if first is None:
            raise caller_closed(behalf.name)
        return first, behalf.depth

    def _permit(self, asked: Asked) -> None:
        """Whether its caller may ask this. Raises `Refused`."""
        look, default = asked.look, self.settings.default_model
        if default is not None and asked.kind not in SPEECH and look.model != AUTO:
            asked.by_default = not any(look.model in one.names for one in self.instances)
            look.model = default if asked.by_default else look.model
        if asked.depth:
            self._permit_inside(asked.caller, look.model)
        elif asked.caller.limits is not UNLIMITED:
            asked.caller.admit(look.model, self.scope_of(look.model))

    def _permit_inside(self, caller: Caller, model: str) -> None:
        """The same for what an agent asks on its caller's behalf; the request that the agent works
        for was counted already. Who may ask `auto` may have it resolved by the agent, which knows
        what it needs; words are what every agent is for, so no key needs the scope `chat` for
        them. Raises `Refused`, which names the key: others than its owner read it."""
        if caller.limits is UNLIMITED:
            return
        chosen = caller.may_use(AUTO) and any(
            one.expert == model and one.auto for one in self.instances
        )
        scope = self.scope_of(model)
        try:
            caller.check(AUTO if chosen else model, None if scope == "chat" else scope)
            caller.afford()
        except Refused as refused:
            message = f"On behalf of the key {caller.name!r}: {refused.message}"
            raise Refused(
                refused.status,
                refused.code,
                message,
                param=refused.param,
                headers=refused.headers,
            ) from refused

    def scope_of(self, model: str) -> str:
        """What a key needs to ask this model."""
        for one in self.instances:
            if one.settings.lists_models and model in one.names:
                return one.needs_scope.get(model, "workflows")
        return "chat"


def _check(kind: Kind, body: bytes, look: Look) -> None:
    """Check what the kind of a request demands of its fields. Raises `Refused` (400)."""
    if kind == "chat" and look.says_nothing:
        raise no_messages()
    look.refuse_unsupported()
    if kind == "rerank":
        check_documents(body)
    if kind in ("tts", "rerank"):
        look.stream = False  # Signs of life would be a part of the sound or of the document.


def _checked(content_type: bytes) -> bytes:
    """Return the content type of a body that is JSON. Raises `Refused` (415)."""
    if content_type != JSON and not is_json(content_type.decode("latin-1")):
        raise wrong_content_type(content_type.decode("latin-1"), JSON.decode())
    return JSON


def _encoded(refused: Refused, headers: Headers) -> Refused:
    """Why a body could not be read, when its caller says that it is compressed."""
    told = next((value for name, value in headers if name == b"content-encoding"), b"identity")
    if refused.status != 400 or told.lower() == b"identity":
        return refused
    return compressed(told.decode("latin-1"))
