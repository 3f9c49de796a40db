"""Additions to the messages of a document for a model, and parsing of typed answers."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipecatapp.workflow.document.shapes import ShapeError, shape
from pipecatapp.workflow.ledger.inbox import Remark
from pipecatapp.workflow.plan import PlanNode
from pipecatapp.workflow.tool import Json, ToolFailed

LONGEST_REQUEST = 4000
"""Maximum characters of the request that every model call of the run receives."""

_FENCE = re.compile(r"\A\s*```[a-z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def request_of(inputs: Mapping[str, Any]) -> str:
    """The task as the person wrote it: the input `request` or `text`, or the last message of a
    user.
    """
    for name in ("request", "text"):
        if isinstance(found := inputs.get(name), str) and found:
            return found
    for message in reversed(inputs.get("messages") or []):
        if message.get("role") == "user":
            return _plain(message.get("content"))
    return ""


def remark_text(remark: Remark) -> str:
    """A note of a person, as a model reads it."""
    return f"Note from {remark.by or 'a person'} while this runs: {remark.text}"


def told(node: PlanNode, given: Json, request: str, remarks: Sequence[Remark]) -> Json:
    """Return the input of a node's tool, with the additions for a model."""
    return with_messages(node, given, request, remarks) if node.messages else given


def with_messages(node: PlanNode, given: Json, request: str, remarks: Sequence[Remark]) -> Json:
    """Return the input of a model call: `text` becomes a message, and one system message is
    first."""
    messages = given.get("messages") or []
    if not (isinstance(messages, list) and all(isinstance(one, dict) for one in messages)):
        raise ShapeError("`messages` must be a list of messages, each with its role and content")
    messages = list(messages)
    rest = {key: value for key, value in given.items() if key not in ("messages", "text")}
    if text := given.get("text"):
        messages.append({"role": "user", "content": text})
    notes = "\n".join(remark_text(remark) for remark in remarks)
    told = [node.system, _about_request(request), notes, _about_answer(node)]
    while messages and messages[0].get("role") == "system":
        told.append(_plain(messages.pop(0).get("content")))
    if system := "\n\n".join(part for part in told if part):
        messages.insert(0, {"role": "system", "content": system})
    return {**rest, "messages": messages}


def typed_answer(node: PlanNode, output: Json) -> Json:
    """Return the requested object of a model's answer; raises `ToolFailed` if it is not valid."""
    text = str(output.get("text", ""))
    fenced = _FENCE.match(text)
    try:
        found: Json = shape(node.returns).check(json.loads(fenced[1] if fenced else text))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ToolFailed(f"the answer is not JSON ({error}): {text[:200]!r}") from error
    except ShapeError as error:
        raise ToolFailed(
            f"the answer has another form than `returns` ({error}): {text[:200]!r}"
        ) from error
    return found


def _about_request(request: str) -> str:
    return f"The task all of this is for:\n{request[:LONGEST_REQUEST]}" if request else ""


def _about_answer(node: PlanNode) -> str:
    if node.returns is None:
        return ""
    schema = json.dumps(shape(node.returns).schema())
    return f"Answer with JSON of this schema and nothing else:\n{schema}"


def _plain(content: Any) -> str:
    """The text of a message, whose content may be a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
