"""The result of an import: a workflow as YAML, and the parts that could not be converted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from pipecatapp.workflow import Diagnostic
from pipecatapp.workflow.syntax import RESERVED, Path, Source

Json = dict[str, Any]


@dataclass
class ImportDraft:
    """One old file on its way to a workflow."""

    source: Source
    models: Mapping[str, str] = field(default_factory=dict)
    """Model of the old file -> role or model here."""
    prompts: frozenset[str] = frozenset()
    """The tags that prompts here have."""
    document: Json = field(default_factory=dict)
    left_out: list[Diagnostic] = field(default_factory=list)
    """Parts that were not imported, or have another meaning, with their position in the old
    file."""

    def say(self, path: Path, message: str, mend: str = "", *, key: bool = False) -> None:
        """Report a part of the old file that the workflow cannot express."""
        self.left_out.append(self.source.diagnostic(path, message, mend, key=key))

    def model(self, path: Path, old: Any) -> str:
        """Return the role for a model of the old file; `default`, with a report, if it has none."""
        if str(old) in self.models:
            return self.models[str(old)]
        mend = f"Name the role that replaces it: --model {old}=ROLE"
        self.say(path, f"{str(old)!r} is not a model here; the role `default` is used", mend)
        return "default"

    @property
    def text(self) -> str:
        """The workflow as YAML; omitted parts are listed in a comment at the top."""
        head = [f"# Imported from {self.source.file}."]
        head += [f"# Look at: {one}" for one in sorted(set(self.left_out))]
        yaml, body = YAML(), StringIO()
        yaml.width = 4096
        yaml.dump(_shown(self.document), body)
        return "\n".join(head) + "\n" + body.getvalue()


def id_of(name: str) -> str:
    """A workflow's id of any name: `Engineering Pipeline.yml` is `engineering-pipeline`."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return words if words[:1].isalpha() else f"imported-{words}".rstrip("-")


def node_id(name: Any, taken: Iterable[str] = ()) -> str:
    """A node's id of any name; one that is a reserved name, or is taken, gets a number."""
    plain = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_")
    plain = plain if plain[:1].isalpha() else f"node_{plain}".rstrip("_")
    known, number, found = {*RESERVED, *taken}, 1, plain
    while found in known:
        number += 1
        found = f"{plain}_{number}"
    return found


def plain(text: Any) -> str:
    """A text of the old file, in which two braces meant nothing."""
    return str(text).replace("{{", "{{ '{{' }}")


def near(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?`"""
    found = get_close_matches(name, [str(one) for one in known], n=1)
    return f"Did you mean {found[0]!r}?" if found else ""


def _shown(value: Any) -> Any:
    """Texts of several lines as blocks, as a person would write them."""
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
