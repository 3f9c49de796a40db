"""Authorize: the key of a request, its format, and what its key permits."""

from collections.abc import Mapping

import structlog
from starlette.types import Receive, Scope

from hearth.service.http_errors import Refused, internal_error, is_json, wrong_content_type
from moe_gateway.endpoints import FAST_PATHS, SPEECH, Kind
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
)
from moe_gateway.http.headers import CALLER_HEADER, ParsedHeaders, session_of
from moe_gateway.http.server import Line
from moe_gateway.keys.delegation import read
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.limits import UNLIMITED, Caller
from moe_gateway.keys.listeners import Listeners
from moe_gateway.requests.context import NO_NEEDS, RequestContext
from moe_gateway.requests.receive import CallerGone, complete_body, read_body
from moe_gateway.requests.reply import JSON, Reply
from moe_gateway.requests.translated import TranslatedReply
from moe_gateway.routing.addresses import refuse_addresses
from moe_gateway.routing.audio import form_look
from moe_gateway.routing.body import WORTH_KEEPING, Look, check_documents, look_at
from moe_gateway.routing.choice import choose, choose_named, having, known_models
from moe_gateway.routing.images import check_prompt, with_image_model
from moe_gateway.routing.instances import Instance
from moe_gateway.routing.prefix import Prefixes
from moe_gateway.settings import AUTO, Settings

log = structlog.get_logger()


class AtOnce(Exception):
    """No server is needed: `answer` is the body of the answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class Authorizer:
    """Reads requests to the fast path and refuses those that are not permitted: by the key, the
    method, the size, the format and the limits of the key.

    While `draining` is set (the service stops), it refuses all.
    """

    def __init__(
        self,
        settings: Settings,
        keys: Keyring,
        instances: list[Instance],
    ) -> None:
        self.settings, self.keys, self.instances = settings, keys, instances
        self.listeners = Listeners(settings.listeners, keys)
        self.prefixes = Prefixes()
        self.draining = False

    async def read(
        self, scope: Scope, receive: Receive, reply: Reply, parsed: ParsedHeaders, line: Line | None
    ) -> RequestContext:
        """Receive a request, and return it if it is permitted. Raises `Refused`, `CallerGone`
        or `AtOnce`."""
        try:
            caller, depth = self._admit(scope, parsed.own)
            body = complete_body(line, self.settings.max_body_bytes)
            if body is None:
                body = await read_body(
                    scope["headers"],
                    receive,
                    limit=self.settings.max_body_bytes,
                    seconds=self.settings.body_seconds,
                )
            request = self._parse(scope, reply, parsed, body, caller, depth)
            self._permit(request)
        except RecursionError as error:
            raise nested_too_deeply() from error
        except (CallerGone, AtOnce):
            raise
        except Refused as refused:
            raise _encoded(refused, scope["headers"]) from refused
        except Exception as error:
            log.exception("request_not_read", request_id=reply.request_id.decode())
            raise internal_error() from error
        return request

    def _parse(
        self,
        scope: Scope,
        reply: Reply,
        parsed: ParsedHeaders,
        body: bytes,
        caller: Caller,
        depth: int,
    ) -> RequestContext:
        """Parse the body. Raises `Refused`."""
        path, headers, notice = scope["path"], scope["headers"], ""
        kind, content_type = FAST_PATHS[path], parsed.own.get(b"content-type", JSON)
        if kind != "stt":
            content_type = _checked(content_type)
        if isinstance(reply, TranslatedReply):
            kind, path, body, notice = self._translated(reply, path, body, caller)
        if kind == "images":
            body = with_image_model(body, known_models(self.instances))
        look = form_look(content_type, body) if kind == "stt" else look_at(body)
        _check(kind, body, look)
        if kind != "stt" and not self.settings.allow_addresses:
            refuse_addresses(body)
        if kind == "chat" and len(body) >= WORTH_KEEPING and self.settings.stable_prefixes:
            body, notice = self._stable(body, look, parsed, caller, notice)
        request = RequestContext(
            kind, path, headers, parsed, body, look, caller, depth, content_type
        )
        if notice:
            request.notice = notice
        return request

    def _stable(
        self, body: bytes, look: Look, parsed: ParsedHeaders, caller: Caller, notice: str
    ) -> tuple[bytes, str]:
        """Return the body without volatile lines at the beginning of its prompt, and the notice
        that names the moved lines. An agent reads the last turn itself, so its requests are not
        changed."""
        if any(one.settings.lists_models for one in having(look.model, self.instances)):
            return body, notice
        stable = self.prefixes.stable(caller.name, session_of(parsed.own), body, look)
        return stable.body, notice + stable.notice

    def _translated(
        self, reply: TranslatedReply, path: str, body: bytes, caller: Caller
    ) -> tuple[Kind, str, bytes, str]:
        """Return kind, path, body and notice of the equivalent request. Raises `Refused` or
        `AtOnce`."""
        found = reply.read(path, body, caller)
        if found.answer is not None:
            self._check_ready(found.model, caller)
            raise AtOnce(found.answer)
        return found.kind, found.path, found.body, found.notice

    def admit_session(
        self, scope: Scope, own: Mapping[bytes, bytes], model: str
    ) -> tuple[Caller, str]:
        """Admit a realtime session, which counts as one request.

        Returns its caller and its model, which is the default for a name that no server has.
        Raises `Refused`.
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
        """Return the model, or the default model for a name that no server has."""
        default = self.settings.default_model
        return default if default and model not in known_models(self.instances) else model

    def _check_ready(self, model: str, caller: Caller) -> None:
        """Check that this caller could use this model now. Raises `Refused`."""
        model = self._known(model)
        if caller.limits is not UNLIMITED:
            caller.check(model, self.scope_of(model))
        if model == AUTO:
            choose(model, NO_NEEDS, self.instances)
        else:
            choose_named(model, having(model, self.instances), NO_NEEDS, self.instances)

    def _admit(self, scope: Scope, own: Mapping[bytes, bytes]) -> tuple[Caller, int]:
        """Return the caller, or that for which an agent acts, and the number of agents between."""
        caller = self.listeners.caller_of(scope, own)
        if caller is None:
            raise no_key()
        if scope["method"] != "POST":
            message = f"{scope['path']} takes POST, not {scope['method']}."
            raise Refused(405, "method_not_allowed", message, headers={"allow": "POST"})
        if self.draining:
            raise stopping()
        if behalf := own.get(CALLER_HEADER):
            return self._first_caller(caller, behalf)
        return caller, 0

    def _first_caller(self, caller: Caller, header: bytes) -> tuple[Caller, int]:
        secrets = {one.key for one in self.instances if one.settings.lists_models}
        behalf = read(header, secrets) if self.keys.is_of_house(caller) else None
        if behalf is None:
            raise forged_caller()
        first = self.keys.named(behalf.name)
        if first is None:
            raise caller_closed(behalf.name)
        return first, behalf.depth

    def _permit(self, request: RequestContext) -> None:
        """Check that the key of the caller permits this request. Raises `Refused`."""
        look, default = request.look, self.settings.default_model
        if default is not None and request.kind not in SPEECH and look.model != AUTO:
            request.by_default = not any(look.model in one.names for one in self.instances)
            look.model = default if request.by_default else look.model
        if request.depth:
            self._permit_inside(request.caller, look.model)
        elif request.caller.limits is not UNLIMITED:
            request.caller.admit(look.model, self.scope_of(look.model))

    def _permit_inside(self, caller: Caller, model: str) -> None:
        """Check a request that an agent sends on its caller's behalf; the request that the agent
        answers was counted already. A key that permits `auto` permits the experts that the agent
        selects instead, and every agent may chat, so no key needs the scope `chat` here. Raises
        `Refused`, which names the key, because the message is read by others than its owner."""
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
        """Return the scope that a key needs to use this model."""
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
    if kind == "images":
        check_prompt(body, stream=look.stream is True)
    if kind in ("tts", "rerank", "images"):
        look.stream = False  # Keep-alive comments would be a part of the audio or the document.


def _checked(content_type: bytes) -> bytes:
    """Return the content type of a body that is JSON. Raises `Refused` (415)."""
    if content_type != JSON and not is_json(content_type.decode("latin-1")):
        raise wrong_content_type(content_type.decode("latin-1"), JSON.decode())
    return JSON


def _encoded(refused: Refused, headers: Headers) -> Refused:
    """Return the reason why a body could not be read, if its headers say that it is compressed."""
    encoding = next((value for name, value in headers if name == b"content-encoding"), b"identity")
    if refused.status != 400 or encoding.lower() == b"identity":
        return refused
    return compressed(encoding.decode("latin-1"))
