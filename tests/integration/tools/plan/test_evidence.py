"""The tool `plan.evidence`: what the steps of a plan name is looked up in a repository."""

from pathlib import Path
from typing import Any

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

EVIDENCE = TOOLS["plan.evidence"]


async def found(root: Path, **step: Any) -> dict[str, Any]:
    """The evidence for one step."""
    ctx = Context(workspace=root, services={Sandbox: Sandbox()})
    inputs = {"steps": [{"id": "step_1", "goal": "Do it.", **step}], "characters": 400}
    (only,) = (await EVIDENCE.check(ctx, inputs))["steps"]
    result: dict[str, Any] = only
    return result


async def test_files_and_definitions_are_found_or_named_as_missing(tmp_path: Path) -> None:
    """A qualified name is not found where only the last part of it exists."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "cart.py").write_text("class Cart:\n    def add(self): ...\n")
    (tmp_path / "empty.md").write_text("")

    seen = await found(
        tmp_path,
        files=["shop/", "shop/__init__.py", "shop/cart.py", "empty.md", "no/", "no.py"],
        names=["Cart.add", "Basket.add"],
    )
    assert seen["found"] == [
        "shop/",
        "shop/__init__.py",
        "shop/cart.py",
        "Cart.add: shop/cart.py:2",
    ]
    assert seen["missing"] == [
        "empty.md: is empty",
        "no/: does not exist",
        "no.py: does not exist",
        "Basket.add: no such definition",
    ]
    assert "shop/cart.py:2:\n    def add(self): ..." in seen["excerpt"]


async def test_paths_that_lead_out_are_missing_and_nothing_of_them_is_shown(
    tmp_path: Path,
) -> None:
    """A plan comes from anywhere, and its excerpt goes to a model."""
    (root := tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("hunter2")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")

    seen = await found(root, files=["../secret.txt", "link.txt"])

    assert len(seen["missing"]) == 2
    assert "hunter2" not in str(seen)


async def test_excerpt_has_the_beginning_of_files_and_ends_at_the_limit(tmp_path: Path) -> None:
    """A long file must not crowd out the others in a prompt."""
    (tmp_path / "long.md").write_text("line\n" * 5000)
    seen = await found(tmp_path, files=["long.md"])
    assert seen["excerpt"].startswith("long.md:\nline\n")
    assert len(seen["excerpt"]) <= 400
