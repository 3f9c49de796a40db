"""What comes to a run from outside: answers and notes."""

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
    """An answer that has come, and of whom."""

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


def preset(id: str, run: str, name: str, value: Any) -> Statement:
    """Keeps an answer that came with the start of a run."""
    return _INSERT, (id, run, name, now(), "preset", json.dumps(value))


def answered(id: str, run: str, path: str, value: Any, by: str) -> Statement:
    """Keeps an answer."""
    return _INSERT, (id, run, path, now(), "answer", json.dumps({"value": value, "by": by}))


def remarked(id: str, run: str, text: str, by: str) -> Statement:
    """Keeps a note to a run."""
    return _INSERT, (id, run, "", now(), "note", json.dumps({"text": clean(text), "by": clean(by)}))


def presets(reader: Reader, run: str) -> Mapping[str, Any]:
    """The answers that came with the start, by path or id of a node."""
    return {row["path"]: read_json(row["body"]) for row in _rows(reader, run, "preset")}


def answers(reader: Reader, run: str) -> Mapping[str, Answered]:
    """The answers that came later, by path."""
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
