"""Read recordings: the output of a real program and the error that it should give."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
CODE, OUT, ERR = "=== exit code ===\n", "\n=== stdout ===\n", "\n=== stderr ===\n"


@dataclass(frozen=True)
class Recording:
    """One recorded output."""

    path: Path
    exit_code: int
    stdout: str
    stderr: str

    @property
    def name(self) -> str:
        """`family/case`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def expected(self) -> dict[str, Any]:
        """The error that was checked by a person."""
        found: dict[str, Any] = json.loads(self.path.with_suffix(".json").read_text("utf-8"))
        return found


def recordings() -> list[Recording]:
    """Return all recordings in the order of their names."""
    return [read(path) for path in sorted(HERE.glob("*/*.txt"))]


def read(path: Path) -> Recording:
    """Read one recording."""
    rest = path.read_text("utf-8").partition(CODE)[2]
    code, _, rest = rest.partition(OUT)
    stdout, _, stderr = rest.partition(ERR)
    return Recording(path, int(code), stdout, stderr)
