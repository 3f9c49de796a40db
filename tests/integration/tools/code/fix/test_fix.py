"""The tool `code.fix` on projects with one mechanical mistake, with the real pytest."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.support.projects import wheels
from tests.support.projects.files import write, write_files

EXTENDED_INPUTS = ["pipecatapp/tools/code/**", "pipecatapp/sandbox/**"]

FIX = TOOLS["code.fix"]
SHOP = '''"""A shop."""

from __future__ import annotations

import math
from rates import RATE, find


class Cart:
    def __init__(self, prices):
        self.prices = prices

    def total(self):
        if self.prices:
            return round(sum(self.prices) * (1 + RATE), 2)
        return 0


def tax(prices, options={"rounded": True}):
    cart = Cart(prices=prices)
    rounded = options["rounded"]  # as the law wants it
    return math.floor(cart.total()) if rounded else cart.total()
'''
RATES = "RATE = 0.5\n\n\ndef find():\n    return RATE\n"
CASES = """
import shop


def test_tax():
    assert shop.tax([2]) == 3


def test_empty():
    assert shop.Cart([]).total() == 0
"""
MISTAKES = [
    ("name", "if rounded else", "if ruonded else", None),
    ("name", "return round(", "return runod(", None),
    ("attribute", "sum(self.prices)", "sum(self.prcies)", None),
    ("attribute", "math.floor(", "math.flooor(", "math.floor("),
    ("import", "import RATE, find", "import RAT, find", None),
    ("import", "from rates import", "from rate import", None),
    ("import", "import math\n", "", None),
    ("import", "RATE, find", "find", "from rates import RATE\n"),
    ("key", 'options["rounded"]', 'options["ronded"]', None),
    ("argument", "Cart(prices=prices)", "Cart(price=prices)", None),
    ("colon", "def total(self):", "def total(self)", None),
    ("bracket", "(1 + RATE), 2)", "(1 + RATE), 2", None),
    ("bracket", "cart.total()) if", "cart.total())) if", None),
    ("bracket", "def total(self):", "def total(self:", None),
    ("quote", '"rounded": True', '"rounded: True', None),
    ("indentation", "    cart = Cart", "      cart = Cart", None),
    ("indentation", "            return round", "        return round", None),
    ("indentation", "    rounded = options", "\trounded = options", None),
]


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "right", "wrong", "repaired"), MISTAKES)
async def test_mechanical_mistake_is_repaired(
    project: Context, with_pytest: str, kind: str, right: str, wrong: str, repaired: str | None
) -> None:
    """The repaired file passes its tests; a mistake of each kind needs no model."""
    assert SHOP.count(right) == 1
    root = write(project, shop=SHOP.replace(right, wrong), rates=RATES, test_shop=CASES)

    result = await FIX.check(project, {"command": "pytest -q", "packages": with_pytest})

    kept = [one for one in result["changes"] if one["kept"]]
    assert ([one["kind"] for one in kept], result["failing"]) == ([kind], []), result
    assert all(one["path"] == "shop.py" for one in result["changes"])
    assert all(one["reason"] for one in result["changes"] if not one["kept"])
    text = (root / "shop.py").read_text(encoding="utf-8")
    assert (repaired or right) in text
    assert sorted(path.name for path in root.iterdir()) == ["rates.py", "shop.py", "test_shop.py"]


async def test_several_mistakes_are_repaired_one_after_the_other(
    project: Context, with_pytest: str
) -> None:
    """Each of them makes another test fail; a test that failed and passes now is listed."""
    broken = SHOP.replace("return 0", "return RATE - RAET").replace("rounded else", "ronded else")
    write(project, shop=broken, rates=RATES, test_shop=CASES)

    result = await FIX.check(project, {"command": "pytest -q", "packages": with_pytest})

    assert (result["fixed"], result["failing"]) == (
        ["test_shop.py::test_tax", "test_shop.py::test_empty"], [],
    )  # fmt: skip


async def test_change_that_does_not_help_is_undone(project: Context, with_pytest: str) -> None:
    """A wrong result is no mechanical mistake, and a similar name may be the wrong one."""
    source = "PRICE = 1\n\n\ndef tax():\n    return PRIZE * 2\n"
    root = write(
        project, shop=source, test_shop="import shop\ndef test(): assert shop.tax() == 3\n"
    )
    given: dict[str, Any] = {"command": "pytest -q", "packages": with_pytest}

    result = await FIX.check(project, given)

    assert (result["fixed"], result["failing"]) == ([], ["test_shop.py::test"])
    assert [(one["kept"], one["reason"]) for one in result["changes"]] == [
        (False, "test_shop.py::test still fails.")
    ]
    assert (root / "shop.py").read_text(encoding="utf-8") == source

    write(project, shop="def tax():\n    return 2\n")
    assert (await FIX.check(project, given))["changes"] == []


@pytest.mark.extended
async def test_change_that_breaks_another_test_is_undone(
    project: Context, with_pytest: str
) -> None:
    """The failing test passes, but one that passed does not."""
    source = "def get(key, table={'one': 1}):\n    return table[key] if key else table['onn']\n"
    cases = """
import pytest, shop
def test_a(): assert shop.get("") == 1
def test_b():
    with pytest.raises(KeyError):
        shop.get(None)
"""
    root = write(project, shop=source, test_shop=cases)

    result = await FIX.check(project, {"command": "pytest -q", "packages": with_pytest})

    assert [one["reason"] for one in result["changes"]] == ["test_shop.py::test_b passed before."]
    assert (root / "shop.py").read_text(encoding="utf-8") == source


async def test_tests_and_other_protected_files_stay(project: Context, with_pytest: str) -> None:
    """A test that is changed until it passes proves nothing."""
    cases = CASES.replace("shop.tax", "shpo.tax")
    root = write(project, shop=SHOP.replace("ruonded", "rounded"), rates=RATES, test_shop=cases)
    given: dict[str, Any] = {"command": "pytest -q", "packages": with_pytest}

    result = await FIX.check(project, given)

    assert {one["kept"] for one in result["changes"]} == {False}
    assert (root / "test_shop.py").read_text(encoding="utf-8") == cases
    write(project, shop=SHOP.replace("prices)", "prcies)", 1), test_shop=CASES)
    result = await FIX.check(project, {**given, "may_touch": ["rates.py"]})
    assert {one["kept"] for one in result["changes"]} <= {False}


@pytest.mark.extended
async def test_mistake_in_a_real_package_is_repaired(project: Context, with_pytest: str) -> None:
    """toolz: two modules of it import from each other, so one typing error fails all tests."""
    assert project.workspace is not None
    wheels.unpack("toolz", project.workspace)
    source = project.workspace / "toolz" / "itertoolz.py"
    text = source.read_text(encoding="utf-8")
    assert "from toolz.utils import no_default" in text
    source.write_text(text.replace("import no_default", "import no_defualt"), encoding="utf-8")

    result = await FIX.check(
        project, {"command": "pytest -q toolz/tests/test_itertoolz.py", "packages": with_pytest}
    )

    assert (result["failing"], [one["kind"] for one in result["changes"]]) == ([], ["import"])
    assert source.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("given", "said"),
    [({"command": "true"}, "nothing to fix"), ({"command": "no-such-program"}, "not found")],
)
async def test_nothing_to_fix_is_said(project: Context, given: dict[str, Any], said: str) -> None:
    """Tests that pass need no repair."""
    with pytest.raises(ToolFailed, match=said):
        await FIX.check(project, given)


READS = """import json
import pathlib


def prices():
    return json.loads(pathlib.Path("data/prices.json").read_text())
"""
CHECKS = "import shop\n\n\ndef test_prices():\n    assert shop.prices() == {'tea': [1, 2]}\n"


async def test_json_that_does_not_parse_is_repaired(project: Context, with_pytest: str) -> None:
    """The traceback ends in the standard library and does not name the file."""
    root = write(project, shop=READS, test_shop=CHECKS)
    write_files(root, {"data/prices.json": '{"tea": [1, 2,]}\n', "data/other.json": "{,}\n"})
    given: dict[str, Any] = {"command": "pytest -q", "packages": with_pytest}

    forbidden = await FIX.check(project, {**given, "protected": ["data/**"]})
    result = await FIX.check(project, given)

    assert len(forbidden["changes"]) == 2
    assert not any(one["kept"] for one in forbidden["changes"])
    kept = [(one["path"], one["kind"]) for one in result["changes"] if one["kept"]]
    assert (kept, result["failing"]) == ([("data/prices.json", "json")], [])
    assert (root / "data" / "prices.json").read_text(encoding="utf-8") == '{"tea": [1, 2]}\n'
    assert (root / "data" / "other.json").read_text(encoding="utf-8") == "{,}\n"


async def test_command_that_names_a_data_file_is_enough(project: Context) -> None:
    """A checker of JSON reports a line, but no file."""
    assert project.workspace is not None
    write_files(project.workspace, {"config.json": "{'a': 1}\n"})

    result = await FIX.check(project, {"command": "python3 -m json.tool config.json"})

    assert [one["kind"] for one in result["changes"] if one["kept"]] == ["json"]


async def test_findings_of_ruff_are_fixed_by_ruff(project: Context) -> None:
    """All files are changed together, as one of them does not make the command succeed."""
    root = write(project, one="import os\n\nX = 1\n", two="import sys\n\nY = 2\n")
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    assert ruff is not None
    shutil.copy(ruff, root / "ruff")
    given: dict[str, Any] = {"command": "./ruff check --no-cache --isolated one.py two.py"}

    forbidden = await FIX.check(project, {**given, "protected": ["two.py"]})
    before = (root / "one.py").read_text(encoding="utf-8")
    result = await FIX.check(project, given)

    assert [(one["kind"], one["kept"]) for one in forbidden["changes"]] == [("ruff", False)]
    assert before == "import os\n\nX = 1\n"
    assert [(one["kind"], one["kept"]) for one in result["changes"]] == [("ruff", True)]
    assert (root / "one.py").read_text(encoding="utf-8").lstrip() == "X = 1\n"
    assert (root / "two.py").read_text(encoding="utf-8").lstrip() == "Y = 2\n"
