"""Calls of pandoc. It reads standard input and files of the sandbox, never the network."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pypandoc

from pipecatapp.tools.documents.jobs.failed import JobFailed

PROGRAM: Final = Path(pypandoc.__file__).parent / "files" / "pandoc"
_NOISE: Final = re.compile(r"\[(?:WARNING|INFO)\]\s*")


def run(arguments: Sequence[str], stdin: bytes = b"") -> tuple[bytes, list[str]]:
    """Return the output and the warnings; raises `JobFailed` with the error of pandoc."""
    ended = subprocess.run(
        [str(PROGRAM), *arguments], input=stdin, capture_output=True, check=False
    )
    said = ended.stderr.decode(errors="replace").strip()
    if ended.returncode != 0:
        raise JobFailed(_sentence(said, ended.returncode))
    return ended.stdout, [line for line in _NOISE.split(said) if line.strip()]


def parse(path: str, form: str) -> dict[str, Any]:
    """Return the syntax tree of a document. Images and included files are not read."""
    tree, _warnings = run(["--sandbox", "-f", form, "-t", "json", path])
    found: dict[str, Any] = json.loads(tree)
    return found


def dump(tree: dict[str, Any], arguments: Sequence[str]) -> str:
    """Return a syntax tree as a text."""
    text, _warnings = run(["-f", "json", *arguments], json.dumps(tree).encode())
    return text.decode(errors="replace")


def _sentence(said: str, code: int) -> str:
    if code < 0:
        return f"pandoc was ended by signal {-code}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[-4:])[:500] or f"pandoc ended with exit code {code}"
