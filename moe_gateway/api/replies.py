"""The replies of APIs that are converted to paths of `/v1`."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

from starlette.types import Send

from moe_gateway.api.anthropic.reply import MessagesReply
from moe_gateway.api.ollama.routes import PATHS as OLLAMA_PATHS
from moe_gateway.endpoints import MESSAGES, OLLAMA, RESPONSES
from moe_gateway.http.server import Line
from moe_gateway.requests.reply import Reply
from moe_gateway.requests.translated import ReplyFactory
from moe_gateway.responses.reply import ResponsesReply
from moe_gateway.responses.store import ResponseStore
from moe_gateway.routing.instances import Instance


def replies_of(
    responses: ResponseStore, instances: Sequence[Instance]
) -> Mapping[str, ReplyFactory]:
    """Return the replies by path; all other paths have a plain `Reply`."""
    return {
        RESPONSES: partial(ResponsesReply, store=responses),
        MESSAGES: MessagesReply,
        **dict.fromkeys(OLLAMA, partial(_ollama_reply, instances=instances)),
    }


def refusal_of(path: str) -> ReplyFactory:
    """Return the reply that refuses a request to this path in the format of its API."""
    if path in OLLAMA_PATHS:
        return _ollama_reply
    return MessagesReply if path.startswith(f"{MESSAGES}/") else Reply


def _ollama_reply(
    request_id: bytes, send: Send, line: Line | None = None, instances: Sequence[Instance] = ()
) -> Reply:
    """Return a reply of Ollama's API, which is imported with its first request."""
    module = import_module("moe_gateway.api.ollama.reply")
    reply: Reply = module.OllamaReply(request_id, send, line, instances=instances)
    return reply
