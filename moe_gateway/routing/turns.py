"""The order of turns that every chat template accepts.

Anthropic's API and Responses allow system messages between the turns, and several turns of a user
in a row: Claude Code and Codex send both with each request. The templates of many models raise an
error for them ("System message must be at the beginning", "Conversation roles must alternate").
"""

from typing import Any, Final

Json = dict[str, Any]

SYSTEM_TEXT: Final = "<system>\n{}\n</system>"
"""Marks of a later system message inside a turn of the user."""


def strict(messages: list[Json]) -> list[Json]:
    """Return the messages with at most one system message, at the beginning, and no two turns of
    the user in a row.

    A later system message stays at its place, as a part of the turn of the user there: at the
    beginning, it would change the prompt before everything that a server has cached.
    """
    found: list[Json] = []
    for message in messages:
        leads = all(one["role"] == "system" for one in found)
        turn = message if leads or message["role"] != "system" else _as_user(message)
        if found and turn["role"] == found[-1]["role"] and turn["role"] in ("system", "user"):
            content = _joined(found[-1]["content"], turn["content"])
            found[-1] = found[-1] | {"content": content}
        else:
            found.append(turn)
    return found


def _as_user(message: Json) -> Json:
    content = message["content"]
    if isinstance(content, str):
        return {"role": "user", "content": SYSTEM_TEXT.format(content)}
    return {"role": "user", "content": content}


def _joined(first: str | list[Json], second: str | list[Json]) -> str | list[Json]:
    """Join texts by an empty line; with other parts among them, as one list of parts."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
