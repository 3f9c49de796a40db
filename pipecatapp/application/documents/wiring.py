"""Wires between nodes: the expressions and `needs` with which a node reads another one."""

import re
from typing import Any, Final

from pydantic import TypeAdapter

from pipecatapp.application.documents.outline import (
    INPUTS,
    OUTPUTS,
    chains_of,
    nodes_of,
    reads,
    resolved,
    texts_of,
)

_WHOLE: Final = re.compile(r"\s*\{\{[^{}]*\}\}\s*")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_WORDS: TypeAdapter[list[str]] = TypeAdapter(list[str])


class WireRefused(LookupError):
    """A wire cannot be made or removed; nothing was changed."""


def expression_of(origin: str, output: str, to: str, known: set[str]) -> str:
    """Return the expression with which the node `to` reads `output` of `origin`, or all of it."""
    if origin == INPUTS:
        names = ["inputs"]
    else:
        if origin not in known:
            raise WireRefused(f"There is no node {origin!r}.")
        names = _from_scope(origin, _scopes_around(to))
    return "{{ " + ".".join([*names, *([output] if output else [])]) + " }}"


def _from_scope(origin: str, scopes: set[str]) -> list[str]:
    """Return the names that lead from the nearest scope around both nodes to the first one."""
    names = origin.split("/")
    for count in range(len(names) - 1, -1, -1):
        if "/".join(names[:count]) in scopes:
            return names[count:]
    return names


def _scopes_around(path: str) -> set[str]:
    """Return the scopes in which names of a node's expressions are looked up."""
    names = [] if path == OUTPUTS else path.split("/")[:-1]
    return {"/".join(names[:count]) for count in range(len(names) + 1)}


def wire(document: Any, node: Any, origin: str, output: str, to: str, into: str) -> None:
    """Let the node `to` read `output` of `origin` as its input `into`; without `into` it only
    waits for it. Raises `WireRefused`.
    """
    known = {each.path for each in nodes_of(document)}
    if to == origin or to.startswith(f"{origin}/") or origin.startswith(f"{to}/"):
        raise WireRefused(f"{to!r} cannot read {origin!r}: one contains the other.")
    text = expression_of(origin, output, to, known)
    if to == OUTPUTS:
        if not _NAME.fullmatch(into):
            raise WireRefused(f"{into!r} is not a valid name of an output: use a-z, 0-9 and _.")
        _mapping(document, "outputs")[into] = text
    elif into:
        holder = _mapping(node, "with")
        *outer, last = into.split(".")
        for name in outer:
            holder = _mapping(holder, name)
        holder[last] = [{"role": "user", "content": text}] if last == "messages" else text
    elif origin == INPUTS or origin.rpartition("/")[0] != to.rpartition("/")[0]:
        raise WireRefused("A node can only wait for a node of the same scope: choose an input.")
    else:
        node["needs"] = list(dict.fromkeys([*_words(node.get("needs")), origin.split("/")[-1]]))


def unwire(document: Any, node: Any, origin: str, to: str) -> None:
    """Remove the inputs of `to` that are one expression which reads `origin`, and its `needs`.

    Raises `WireRefused` where the expression is a part of a text, which would be lost.
    """
    known = {each.path: each for each in nodes_of(document)}
    scope = "" if to == OUTPUTS else to.rpartition("/")[0]
    fields = document.get("outputs") if to == OUTPUTS else node.get("with")
    removed = False
    for name, value in list(fields.items() if isinstance(fields, dict) else ()):
        if origin in reads(value, scope, known):
            _only_this(name, value, origin, scope, known)
            del fields[name]
            removed = True
    needs = [] if to == OUTPUTS else _words(node.get("needs"))
    left = [name for name in needs if resolved([name], scope, known) != origin]
    if left != needs:
        removed = True
        node["needs"] = left
        if not left:
            del node["needs"]
    if not removed:
        raise WireRefused(
            f"No input of {to!r} is only this wire: change its conditions, or the order of the "
            "steps."
        )


def _only_this(name: str, value: Any, origin: str, scope: str, known: Any) -> None:
    texts = list(texts_of(value))
    others = {
        path for text in texts for chain in chains_of(text)
        if (path := resolved(chain, scope, known)) != origin
    }  # fmt: skip
    if len(texts) != 1 or not _WHOLE.fullmatch(texts[0]) or others:
        raise WireRefused(f"The input {name!r} has other text too: edit it in the form.")


def _mapping(holder: Any, name: str) -> Any:
    if not isinstance(holder.get(name), dict):
        holder[name] = {}
    return holder[name]


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else _WORDS.validate_python(list(value or []))
