"""The two sides of a planned job, as text that Ansible's diff shows line by line.

Nomad's plan answers a tree of changed fields; each becomes a line in the shape of the job's own
file. Fields that are the same are shown on both sides only where
Nomad sends them as context.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

from hearth.cluster.endpoint import Json

Side = Literal["before", "after"]
HIDDEN: Final = {"before": "Added", "after": "Deleted"}
VALUE: Final = {"before": "Old", "after": "New"}
INDENT: Final = "  "


def sides(diff: Json) -> tuple[str, str]:
    """Both sides of Nomad's `Diff`; equal when nothing changes."""
    return _side(diff, "before"), _side(diff, "after")


def changes(diff: Json) -> bool:
    """Whether registering the job would change it."""
    return bool(diff.get("Type") != "None")


def _side(diff: Json, side: Side) -> str:
    if not changes(diff) or diff["Type"] == HIDDEN[side]:
        return ""
    lines = [f'job "{diff["ID"]}"', *_body(diff, side, 1)]
    for group in _rows(diff, "TaskGroups"):
        lines += _block(f'group "{group["Name"]}"', group, side, 1)
    return "\n".join(lines) + "\n"


def _block(title: str, part: Json, side: Side, depth: int) -> Iterator[str]:
    if part["Type"] == HIDDEN[side] or (part["Type"] == "None" and not _has_rows(part)):
        return
    yield f"{INDENT * depth}{title}"
    yield from _body(part, side, depth + 1)
    for task in _rows(part, "Tasks"):
        yield from _block(f'task "{task["Name"]}"', task, side, depth + 1)


def _body(part: Json, side: Side, depth: int) -> Iterator[str]:
    for row in _rows(part, "Fields"):
        if row["Type"] != HIDDEN[side]:
            yield from _field(row["Name"], row[VALUE[side]], depth)
    for inner in _rows(part, "Objects"):
        yield from _block(inner["Name"], inner, side, depth)


def _field(name: str, value: str, depth: int) -> Iterator[str]:
    first, *more = value.split("\n")
    if not more:
        yield f'{INDENT * depth}{name} = "{first}"'
        return
    yield f"{INDENT * depth}{name} ="
    for line in (first, *more):
        yield f"{INDENT * (depth + 1)}{line}".rstrip()


def _rows(part: Json, kind: str) -> list[Any]:
    return part.get(kind) or []


def _has_rows(part: Json) -> bool:
    return any(part.get(kind) for kind in ("Fields", "Objects", "Tasks"))
