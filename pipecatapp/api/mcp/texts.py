"""Notes as resources, and the prompt library as prompts, for MCP clients."""

from typing import Final

from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    GetPromptResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from pipecatapp.api.mcp.callers import McpCaller
from pipecatapp.api.parts import Parts
from pipecatapp.application.notes import Note

NOTES: Final = "hearth://notes/"
TEXT: Final = "text/plain"
MOST_NOTES: Final = 200
"""The newest notes in the list; the others are found with the tool `note_find`."""
SHOWN: Final = 80
"""Characters of a note in its name."""
TEMPLATE: Final = ResourceTemplate(
    name="note", uri_template=f"{NOTES}{{id}}", description="A note by its id.", mime_type=TEXT
)


def notes_of(parts: Parts, caller: McpCaller) -> list[Resource]:
    """Return the newest notes that the caller may see, as resources."""
    return [_resource(note) for note in parts.notes.find("", MOST_NOTES, owner=caller.owner)]


def note_at(parts: Parts, caller: McpCaller, uri: str) -> ReadResourceResult:
    """Return the note at a URI; raises `MCPError` for one that the caller does not have."""
    id = uri.removeprefix(NOTES)
    note = parts.notes.get(id, owner=caller.owner) if uri.startswith(NOTES) else None
    if note is None:
        raise MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}.", {"uri": uri[:200]})
    contents = TextResourceContents(uri=uri, mime_type=TEXT, text=note.text)
    return ReadResourceResult(contents=[contents])


def prompts_of(parts: Parts) -> list[Prompt]:
    """Return the prompts of the library; their tags are the description."""
    known = sorted(parts.runs.engine.prompts.values(), key=lambda prompt: prompt.id)
    return [
        Prompt(name=one.id, description=f"Tags: {', '.join(sorted(one.tags)) or 'none'}")
        for one in known
    ]


def prompt_of(parts: Parts, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return a prompt; raises `MCPError` for an unknown one, and for arguments: it has none."""
    prompt = parts.runs.engine.prompts.get(name)
    if prompt is None:
        raise MCPError(INVALID_PARAMS, f"There is no prompt {name[:200]!r}.")
    if arguments:
        raise MCPError(INVALID_PARAMS, f"The prompt {name!r} has no arguments.")
    content = TextContent(text=prompt.text)
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])


def _resource(note: Note) -> Resource:
    first = next(iter(note.text.strip().splitlines()), "")
    return Resource(
        name=first[:SHOWN] or note.id,
        uri=f"{NOTES}{note.id}",
        description=f"A note of {note.at}, {note.source}" if str(note.source) else None,
        mime_type=TEXT,
        size=len(note.text.encode()),
    )
