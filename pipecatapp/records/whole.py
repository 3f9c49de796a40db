"""Files that are written as a whole or not at all."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """All of it or nothing, also when the power fails."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
