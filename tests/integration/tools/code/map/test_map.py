"""The tool `code.map`: the most relevant definitions of a repository."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context
from tests.integration.tools.code.symbols.test_symbols import FILES

MAP = TOOLS["code.map"]
NOISE = "".join(f"def noise_{number}(value): ...\n" for number in range(200))


async def mapped(root: Path, **inputs: Any) -> Any:
    return await MAP.check(Context(workspace=root, services={Sandbox: Sandbox()}), inputs)


@pytest.mark.proves("000-21")
async def test_what_a_symbol_uses_and_what_uses_it_comes_first(tmp_path: Path) -> None:
    """A small budget holds the called function, not the two hundred others."""
    (tmp_path / "a_noise.py").write_text(NOISE)
    (tmp_path / "rates.py").write_text("def rate(country: str) -> int:\n    return 5\n")
    shop = (
        "from rates import rate\n\n\nclass Cart:\n    def total(self):\n        return rate('x')\n"
    )
    (tmp_path / "shop.py").write_text(shop)

    seen = await mapped(tmp_path, symbols=["shop.py:Cart.total"], budget=64)

    assert "rates.py:\n  1: def rate(country: str) -> int\n" in seen["text"]
    assert "shop.py:\n  4: class Cart\n    5: def total(self)\n" in seen["text"]
    assert seen["tokens"] == estimated(seen["text"]) <= 64
    assert seen["left_out"] >= 190
    assert seen == await mapped(tmp_path, symbols=["shop.py:Cart.total"], budget=64)


async def test_every_language_is_mapped_and_no_link_is_followed(tmp_path: Path) -> None:
    """A hostile repository may link to files outside; a large file is named as unread."""
    (root := tmp_path / "work").mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    (tmp_path / "secret.py").write_text("def secret(): ...\n")
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    (root / "deep.py").write_text("x = " + "(" * 50_000 + "\n")
    (root / "large.py").write_text("#" * (1 << 20) + "\n")

    seen = await mapped(root, budget=4000)

    assert {one["path"] for one in seen["shown"]} >= FILES.keys()
    assert "secret" not in seen["text"]
    assert seen["unread"] == ["large.py"]
