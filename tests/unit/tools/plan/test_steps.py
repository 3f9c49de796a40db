"""The steps of a plan as people and programs write them."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.plan.steps import CheckedStep, step_of
from pipecatapp.workflow import Context, ToolFailed

STEPS = TOOLS["plan.steps"]
PLAN = """# A shop

Prices first, then the rest.

1. Write `total` in `shop/price.py`.
   It takes a discount, see https://example.org/a.html.
2) [x] Add `Cart.add()` and `Cart::remove`
* Describe it in README.md and docs/
  ```python
  - `no_step` = 1
  ```
- [ ] Sell tea, e.g. green.
"""


async def test_items_of_all_kinds_are_steps_with_the_names_in_them() -> None:
    """Code in a step belongs to the step, and a word with a point is no file."""
    found = (await STEPS.check(Context(), {"text": PLAN}))["steps"]
    assert [(one["files"], one["names"]) for one in found] == [
        (["shop/price.py"], ["total"]),
        ([], ["Cart.add", "Cart::remove"]),
        (["docs/"], ["no_step"]),
        ([], []),
    ]
    assert "takes a discount" in found[0]["goal"]


@pytest.mark.parametrize(
    ("goal", "files", "names"),
    [
        ("`shop.total` of `shop.py`", ["shop.py"], ["shop.total"]),
        ("Run `pytest -q tests`", [], []),
        ("Write src/app.ts", ["src/app.ts"], []),
        ("and/or", [], []),
        ("`a/b/`", ["a/b/"], []),
    ],
)
def test_names_and_files_are_told_apart(goal: str, files: list[str], names: list[str]) -> None:
    """A command line is neither, and a qualified name is no file."""
    assert step_of("s", goal) == CheckedStep(id="s", goal=goal, files=files, names=names)


async def test_text_without_a_list_is_refused_with_the_remedy() -> None:
    """A plan in prose has no steps to count."""
    with pytest.raises(ToolFailed, match="write each step as an item"):
        await STEPS.check(Context(), {"text": "Make it good."})
