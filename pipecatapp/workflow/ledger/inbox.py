"""Messages to a run from outside: answers and notes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.values import Statement, clean, read_json

_INSERT = "INSERT INTO inbox (id, run, path, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Answered:
    """An answer and its author."""

    value: Any
    by: str
    at: str


@dataclass(frozen=True)
class Remark:
    """A note that a person posted to a run."""

    id: str
    text: str
    by: str
    at: str


@dataclass(frozen=True)
class Added:
    """An item that a person has added to the to-do list of a run."""

    text: str
    by: str


def preset(id: str, run: str, name: str, value: Any) -> Statement:
    """Return the statement that stores an answer from the start of a run."""
    return _INSERT, (id, run, name, now(), "preset", json.dumps(value))


def answered(id: str, run: str, path: str, value: Any, by: str) -> Statement:
    """Keeps an answer."""
    return _INSERT, (id, run, path, now(), "answer", json.dumps({"value": value, "by": by}))


def remarked(id: str, run: str, text: str, by: str) -> Statement:
    """Keeps a note to a run."""
    return _INSERT, (id, run, "", now(), "note", json.dumps({"text": clean(text), "by": clean(by)}))


def strike(id: str, run: str, path: str, by: str) -> Statement:
    """Keeps that the step of a plan at this path is not to be run."""
    return _INSERT, (id, run, path, now(), "strike", json.dumps({"by": clean(by)}))


def add(id: str, run: str, text: str, by: str) -> Statement:
    """Keeps an item for the to-do list of a run."""
    return _INSERT, (id, run, "", now(), "todo", json.dumps({"text": clean(text), "by": clean(by)}))


def struck(reader: Reader, run: str) -> dict[str, str]:
    """Return the person that struck each step of plans, by path."""
    return {row["path"]: read_json(row["body"])["by"] for row in _rows(reader, run, "strike")}


def added(reader: Reader, run: str) -> list[Added]:
    """The items that people have added, oldest first."""
    return [Added(**read_json(row["body"])) for row in _rows(reader, run, "todo")]


def presets(reader: Reader, run: str) -> Mapping[str, Any]:
    """Return the answers from the start of a run, by path or id of a node."""
    return {row["path"]: read_json(row["body"]) for row in _rows(reader, run, "preset")}


def answers(reader: Reader, run: str) -> Mapping[str, Answered]:
    """Return the later answers, by path."""
    return {
        row["path"]: Answered(**read_json(row["body"]), at=row["at"])
        for row in _rows(reader, run, "answer")
    }


def remarks(reader: Reader, run: str) -> list[Remark]:
    """The notes, oldest first."""
    return [
        Remark(row["id"], **read_json(row["body"]), at=row["at"])
        for row in _rows(reader, run, "note")
    ]


def _rows(reader: Reader, run: str, kind: str) -> list[Any]:
    sql = "SELECT * FROM inbox WHERE run = ? AND kind = ? ORDER BY id"
    return reader.rows(sql, (run, kind))
