"""The tool `code.localise` on real projects, with the real pytest in the sandbox."""

from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.support.projects import wheels
from tests.support.projects.files import write

EXTENDED_INPUTS = [
    "pipecatapp/tools/code/localise/**", "pipecatapp/tools/code/testing/**",
    "pipecatapp/sandbox/**",
]  # fmt: skip

LOCALISE = TOOLS["code.localise"]
SHOP = """
class Cart:
    def __init__(self):
        self.prices = []

    def __repr__(self):
        return show(self)

    def add(self, price):
        self.prices.append(price)
        return self


def show(cart):
    return str(cart.prices)


def tax(price):
    def rate():
        if price > 100:
            return 200
        return 0

    return price + price * rate() // 100


def total(cart):
    return sum(map(tax, cart.prices))


def loop():
    while True:
        try:
            pass
        except Exception:
            pass


def use():
    raise ValueError(show)
"""
CASES = """
from shop import Cart, loop, total, use


def test_small():
    assert total(Cart().add(10)) == 10


def test_empty():
    assert total(Cart()) == 0


def test_large():
    cart = Cart().add(200)
    assert (total(cart), cart) == (240, cart)


def test_loop():
    loop()


def test_use():
    use()
"""


def first(result: dict[str, Any]) -> tuple[str, str]:
    return result["symbols"][0]["file"], result["symbols"][0]["symbol"]


async def test_function_that_only_the_failing_test_runs_differently_is_first(
    project: Context, with_pytest: str
) -> None:
    """All tests call `tax`, but the failing test alone runs one line of it.

    `Cart.__repr__` is called because the test fails, so it is not the reason.
    """
    root = write(project, shop=SHOP, tests__test_shop=CASES.partition("\n\ndef test_loop")[0])
    given = {"command": "pytest -q -x", "packages": with_pytest}

    found = await LOCALISE.check(project, given)
    again = await LOCALISE.check(project, {**given, "failing": found["failing"], "top": 1})

    test = "tests/test_shop.py::test_large"
    assert found["failing"] == [test]
    assert found["passing"] == [test.replace("large", "empty"), test.replace("large", "small")]
    assert found["symbols"][0] == {
        "symbol": "tax", "file": "shop.py", "line": 18, "end_line": 24, "score": 0.7647,
    }  # fmt: skip
    names = [one["symbol"] for one in found["symbols"]]
    assert names == ["tax", "Cart.add", "Cart.__init__", "total"]
    assert again["symbols"] == found["symbols"][:1]
    assert sorted(path.name for path in root.iterdir()) == ["shop.py", "tests"]


@pytest.mark.parametrize("name", ["loop", "use"])
async def test_function_in_the_traceback_is_first(
    project: Context, with_pytest: str, name: str
) -> None:
    """An exception names its function; a loop without an end is interrupted, and does so, too."""
    write(project, app__shop=SHOP, app__test_shop=CASES)
    given = {"command": "pytest", "folder": "app", "packages": with_pytest, "seconds": 20}

    found = await LOCALISE.check(project, {**given, "failing": [f"test_shop.py::test_{name}"]})

    assert (first(found), found["symbols"][0]["score"]) == (("app/shop.py", name), 1.0)


@pytest.mark.extended
async def test_hanging_suite_leads_to_its_loop(project: Context, with_pytest: str) -> None:
    """The run that finds the failing test is ended by its limit; the test is known by its stack."""
    write(project, shop=SHOP, test_shop=CASES)
    given = {"command": "pytest", "packages": with_pytest, "seconds": 16}

    found = await LOCALISE.check(project, given)

    assert (found["failing"], first(found)) == (["test_shop.py::test_loop"], ("shop.py", "loop"))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("source", "lines"),
    [("import os\nTAX = os.tax\n", (1, 2)), ("def tax():\n    pass\n\ndef total(:\n", (1, 4)),
     ("def read():\n    return os.tax\n\n\nTAX = read()\n", (1, 2))],
)  # fmt: skip
async def test_file_that_cannot_be_imported_is_found(
    project: Context, with_pytest: str, source: str, lines: tuple[int, int]
) -> None:
    """No test runs then; the place is in the error of the import."""
    write(project, shop=source, test_shop="import shop\n", test_b="def test_b(): pass\n")

    found = await LOCALISE.check(project, {"command": "pytest", "packages": with_pytest})

    suspect = found["symbols"][0]
    assert (suspect["file"], suspect["line"], suspect["end_line"]) == ("shop.py", *lines)
    assert suspect["symbol"] == ("read" if "read" in source else "<module>")
    assert found["failing"] == ["test_shop.py"]


@pytest.mark.extended
async def test_bug_of_a_real_package_is_found(project: Context, with_pytest: str) -> None:
    """toolz: ten lines of `partition_all` decide how long the last part is."""
    assert project.workspace is not None
    wheels.unpack("toolz", project.workspace)
    source = project.workspace / "toolz" / "itertoolz.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("yield prev[:lo]", "yield prev[:lo + 1]"), encoding="utf-8")

    found = await LOCALISE.check(
        project, {"command": "pytest -q toolz/tests/test_itertoolz.py", "packages": with_pytest}
    )

    assert first(found) == ("toolz/itertoolz.py", "partition_all")
    assert len(found["passing"]) == 20
    assert not any("/tests/" in one["file"] for one in found["symbols"])


async def test_other_command_gives_the_place_of_its_error(project: Context) -> None:
    """Without pytest there is no trace, but the output names a line."""
    write(project, app__shop=SHOP, app__check="import shop\nshop.use()\n")

    found = await LOCALISE.check(project, {"command": "python3 check.py", "folder": "app"})

    assert (first(found), found["passing"]) == (("app/shop.py", "use"), [])


@pytest.mark.extended
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "pytest -k small"}, "No test fails"),
        ({"command": "pytest", "failing": ["test_shop.py::test_small"]}, "pass when they are run"),
        ({"command": "pytest", "failing": ["test_shop.py::test_no"]}, "does not run test_shop.py"),
        ({"command": "false"}, "shows no place"),
        ({"command": "no-such-program"}, "not found"),
    ],
)
async def test_nothing_to_find_is_said(
    project: Context, with_pytest: str, given: dict[str, Any], said: str
) -> None:
    """A wrong list of functions would send the repair astray."""
    write(project, shop=SHOP, test_shop=CASES)

    with pytest.raises(ToolFailed, match=said):
        await LOCALISE.check(project, {**given, "packages": with_pytest})
