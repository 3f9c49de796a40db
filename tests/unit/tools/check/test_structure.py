"""The tool `check.structure` on small projects."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context
from tests.support.projects.files import write_files


async def check(root: Path, **inputs: Any) -> Any:
    return await TOOLS["check.structure"].check(Context(workspace=root), inputs)


def found(result: Any) -> list[tuple[str, str, int | None]]:
    return [(one["kind"], one["path"], one["line"]) for one in result["problems"]]


@pytest.mark.proves("002-17")
async def test_size_and_cycle_rules_name_the_file_and_the_line(tmp_path: Path) -> None:
    """A model or a person needs the place to correct it."""
    write_files(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/cart.py": "import os\nfrom shop.rates import rate\n",
            "shop/rates.py": "from . import tax\n",
            "shop/tax.py": "def f():\n    from shop import cart\n",
            "shop/long.py": "x = 1\n" * 6,
            "web/a.ts": "import { b } from './b'\n",
            "web/b.ts": "const a = require('./a.ts')\n",
            "web/notes.txt": "1\n" * 9,
        },
    )

    result = await check(tmp_path, lines=5, files=4)

    assert not result["ok"]
    assert result["files"] == 7
    assert found(result) == [
        ("lines", "shop/long.py", None),
        ("folder", "shop", None),
        ("cycle", "shop/cart.py", 2),
        ("cycle", "web/a.ts", 1),
    ]
    assert result["problems"][2]["message"] == (
        "These files import each other: shop/cart.py → shop/rates.py → shop/tax.py → shop/cart.py."
    )
    assert (await check(tmp_path, lines=6, files=5, ignored=["*/a.ts", "shop/tax.py"]))["ok"]


async def test_folder_must_not_import_another(tmp_path: Path) -> None:
    """The layers of an architecture are rules between folders; `src` is where modules begin."""
    write_files(
        tmp_path,
        {
            "src/api/__init__.py": "",
            "src/api/routes.py": "import core.store\nfrom cli import main\n",
            "src/cli/__init__.py": "def main(): ...\n",
            "src/core/store.py": "import json\n",
            "src/broken.py": "import (\n",
        },
    )
    rule = {"files": "src/api/**", "never": "src/cli/**"}

    result = await check(tmp_path, rules=[rule])
    other = await check(tmp_path, rules=[{"files": "src/core/**", "never": "src/**"}])

    assert found(result) == [("rule", "src/api/routes.py", 2)]
    assert result["problems"][0]["message"] == (
        "src/api/routes.py imports src/cli/__init__.py: src/api/** must not import src/cli/**."
    )
    assert other["ok"]


async def test_imports_that_are_not_of_the_project_are_passed_over(tmp_path: Path) -> None:
    """A module may have the name of one of the standard library, and a relative one may be gone."""
    write_files(
        tmp_path,
        {"a/json.py": "import json\nfrom ... import x\n", "b.js": "import './gone.js'\n"},
    )

    result = await check(tmp_path)

    assert result == {"ok": True, "problems": [], "left_out": 0, "files": 2}
