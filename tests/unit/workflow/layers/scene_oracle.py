"""What OpenUSD makes of the scenes in a folder; its answers are kept in `scenes_by_usd.json`, each
with the sum of the text that it was given. See `scenes.py` for how this is run.
"""

import hashlib
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pxr import Usd

FILE = Path(__file__).with_name("scenes_by_usd.json")


def composed(file: Path) -> dict[str, Any]:
    """Fields and children of every prim that a traversal of the scene shows."""
    stage = Usd.Stage.Open(str(file))
    root = stage.GetDefaultPrim()
    return {
        str(prim.GetPath()).removeprefix(str(root.GetPath())).lstrip("/"): {
            "fields": {_name(one): _value(one) for one in prim.GetAttributes() if one.HasValue()},
            "inside": [child.GetName() for child in prim.GetChildren()],
        }
        for prim in stage.Traverse()
        if prim.GetPath().HasPrefix(root.GetPath())
    }


def _name(attribute: Any) -> str:
    return re.sub(r"_u([0-9a-f]{4,6})_", lambda m: chr(int(m[1], 16)), attribute.GetName())


def _value(attribute: Any) -> Any:
    kind, value = attribute.GetTypeName(), attribute.Get()
    if str(kind) == "token":
        return json.loads(value)
    return list(value) if kind.isArray else value


def main(folder: Path) -> None:
    found = {
        file.stem: {
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "composed": composed(file),
        }
        for file in sorted(folder.glob("*.usda"))
    }
    told = {"usd-core": version("usd-core"), "scenes": found}
    FILE.write_text(json.dumps(told, sort_keys=True, separators=(",", ":")) + "\n")
    sys.stdout.write(f"{len(found)} scenes, usd-core {told['usd-core']}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
