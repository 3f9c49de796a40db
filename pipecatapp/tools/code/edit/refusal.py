"""Why an edit was not applied, as data that a document can branch on."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

Reason = Literal[
    "no_block",
    "no_path",
    "malformed",
    "unterminated",
    "elision",
    "no_op",
    "does_not_parse",
    "not_found",
    "ambiguous",
    "indentation",
    "empty_search",
    "overlap",
    "no_such_file",
    "exists",
    "not_text",
    "too_large",
    "line_ends",
    "may_touch",
    "protected",
    "git_directory",
    "path_traversal",
    "symbolic_link",
    "not_a_file",
    "no_symbol",
    "wrong_symbol",
    "no_span",
    "unsupported",
]
"""`not_found`, `ambiguous`, `indentation`, `elision` and the like are worth another request to the
model; `may_touch`, `protected`, `git_directory`, `path_traversal` and `symbolic_link` are limits.
"""


class Candidate(BaseModel):
    """A part of the file that an edit may have meant."""

    line: int = Field(description="Its first line, counted from 1; 0 where it is not a line.")
    text: str


class Refusal(BaseModel):
    """One edit of the answer that cannot be applied."""

    reason: Reason
    message: str = Field(description="The mistake and its remedy, for the next prompt.")
    path: str = Field(description="The file; empty where the answer names none.")
    at: int = Field(description="The line of the answer where the edit begins, counted from 1.")
    candidates: list[Candidate] = []


class Refused(Exception):
    """An edit cannot be applied; the attributes say why. `edit` turns it into a `Refusal`."""

    def __init__(
        self, reason: Reason, message: str, candidates: Sequence[Candidate] = (), at: int = 0
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.candidates = list(candidates)
        self.at = at
