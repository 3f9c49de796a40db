"""One definition of a source file."""

from typing import Literal

from pydantic import BaseModel, Field

Kind = Literal[
    "class", "function", "method", "struct", "union", "typedef", "enum", "interface", "namespace",
    "table", "other",
]  # fmt: skip


class Definition(BaseModel):
    """A definition and the lines that it takes, counted from 1."""

    name: str
    qualified: str = Field(description="With the names around it, such as `Class.method`.")
    kind: Kind
    start: int = Field(description="The first line, decorators and annotations included.")
    line: int = Field(description="The line that has the name.")
    end: int | None = Field(description="The last line; null if it is unknown for the language.")
