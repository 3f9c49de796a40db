"""A second model, whose file can be made to fail in many ways."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from hearth.models.catalogue import FALLBACK, shipped_catalogue


class Clever:
    """A catalogue with a second model, `clever`, whose file can be made to fail in many ways."""

    def __init__(self, small: Path, folder: Path) -> None:
        self.catalogue, self.model_dir = folder / "models.yaml", folder / "models"
        shutil.copytree(small, self.model_dir / FALLBACK, copy_function=os.link)
        self.small = (self.model_dir / FALLBACK / "SmolLM2-135M-Instruct.Q4_1.gguf").read_bytes()
        self.file = self.model_dir / "clever" / "clever.gguf"

    def add(self, content: bytes | None, **fields: Any) -> dict[str, Any]:
        """Write the catalogue and lay the file there; what the launcher needs to find both."""
        data = YAML(typ="safe").load(shipped_catalogue().read_text(encoding="utf-8"))
        pin = {"sha256": hashlib.sha256(content or self.small).hexdigest(), "size_bytes": None}
        place = {"file": "clever.gguf", "source": {"kind": "file", "path": str(self.file)}}
        data["models"]["clever"] = data["models"][FALLBACK] | place | pin | fields
        with self.catalogue.open("w", encoding="utf-8") as stream:
            YAML().dump(data, stream)
        if content is not None:
            self.file.parent.mkdir()
            self.file.write_bytes(content)
        return {"catalogue": self.catalogue, "model_dir": self.model_dir}
