"""The tool `code.context`: what a model reads before it mends an error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipecatapp.sandbox import Sandbox, bubblewrap
from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context

EXTENDED_INPUTS = ["pipecatapp/tools/code/context/**", "pipecatapp/tools/code/map/**"]

CONTEXT = TOOLS["code.context"]
PROGRAM = '''"""A shop."""

import os


class Cart:
    """Goods."""

    def total(self):
        return discounted(sum(self.prices))


def discounted(price):
    return price - rate() / 0


def rate():
    return 5


def unrelated():
    return 6
'''
TEST = """from shop import Cart


def test_total():
    assert Cart().total() == 5
"""
JAVASCRIPT = """function outer() {
  return inner(1);
}

function inner(x) {
  return x.y.z;
}
"""


def frame(file: str, line: int, *, own: bool = True) -> dict[str, Any]:
    return {"file": file, "line": line, "symbol": None, "own": own}


def error(*frames: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Error", "message": "x", "file": None, "line": None, "frames": list(frames)}


async def collect(root: Path, **inputs: Any) -> Any:
    context = Context(workspace=root, services={Sandbox: Sandbox()})
    return await CONTEXT.check(context, inputs)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "shop.py").write_text(PROGRAM)
    (tmp_path / "tests" / "test_shop.py").write_text(TEST)
    (tmp_path / "a.js").write_text(JAVASCRIPT)
    return tmp_path


async def test_functions_of_the_stack_come_first_then_what_they_use(shop: Path) -> None:
    """The innermost function is the likeliest; library frames and unused functions are noise."""
    stack = error(
        frame("/work/tests/test_shop.py", 5),
        frame("/work/shop.py", 10),
        frame("/work/shop.py", 14),
        frame("/usr/lib/python3.11/json/decoder.py", 1, own=False),
    )

    seen = await collect(shop, error=stack, protected=["tests/**"])

    assert [(each["path"], each["symbol"], each["reason"]) for each in seen["excerpts"]] == [
        ("shop.py", "discounted", "error"),
        ("shop.py", "Cart.total", "error"),
        ("tests/test_shop.py", "test_total", "error"),
        ("shop.py", "rate", "used"),
        ("shop.py", "Cart", "used"),
    ]
    assert "shop.py, lines 13 to 14, `discounted`:\n```\ndef discounted(price):\n" in seen["text"]
    assert "`test_total` (must not be changed):" in seen["text"]
    assert "unrelated" not in seen["text"]
    assert seen["left_out"] == []


async def test_assertion_in_a_test_brings_the_function_under_test(shop: Path) -> None:
    """The stack of a failed assertion holds only the test."""
    seen = await collect(shop, error=error(frame("tests/test_shop.py", 5)))

    assert [each["symbol"] for each in seen["excerpts"]] == ["test_total", "Cart"]


async def test_other_languages_are_read_with_ctags(shop: Path) -> None:
    """The error of a Node.js program brings its functions, too."""
    seen = await collect(shop, error=error(frame("/work/a.js", 2), frame("/work/a.js", 6)))

    assert [each["symbol"] for each in seen["excerpts"]] == ["inner", "outer"]


async def test_suspects_and_files_are_added_in_their_order(shop: Path) -> None:
    """Fault localisation names functions without an error; a person names files."""
    suspects = [{"file": "shop.py", "symbol": "rate", "line": 18}]

    seen = await collect(shop, suspects=suspects, files=["a.js", "missing.js"])

    found = [(each["path"], each["symbol"], each["reason"]) for each in seen["excerpts"]]
    assert found == [("shop.py", "rate", "suspect"), ("a.js", "", "file")]


async def test_lines_outside_of_definitions_and_broken_files_are_shown(shop: Path) -> None:
    """A syntax error is in a file that does not parse."""
    (shop / "broken.py").write_text("".join(f"x{n} = {n}\n" for n in range(100)) + "def (:\n")

    seen = await collect(shop, error=error(frame("/work/broken.py", 101)))

    (excerpt,) = seen["excerpts"]
    assert (excerpt["start"], excerpt["end"], excerpt["symbol"]) == (81, 102, "")
    assert "def (:" in seen["text"]


async def test_file_without_definitions_shows_the_lines_around(shop: Path) -> None:
    """A script may consist of statements only."""
    (shop / "plain.js").write_text("x = 1\ny.z()\n")

    seen = await collect(shop, error=error(frame("/work/plain.js", 2)))

    assert [(each["path"], each["symbol"]) for each in seen["excerpts"]] == [("plain.js", "")]


async def test_files_outside_of_the_workspace_are_not_read(shop: Path) -> None:
    """A program prints what it likes as the path of its error, and a link may lead anywhere."""
    (shop / "link.py").symlink_to("/etc/passwd")

    seen = await collect(
        shop,
        error=error(frame("/etc/passwd", 1), frame("../x.py", 1), frame("link.py", 1)),
        files=["/etc/passwd", "link.py", ".git/config"],
    )

    assert seen["excerpts"] == []
    assert seen["text"] == ""


@settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    bodies=st.lists(
        st.lists(st.text("ab xyz()`+é\"'", max_size=200), min_size=1, max_size=60),
        min_size=1, max_size=4,
    ),
    chosen=st.integers(0, 3),
    at=st.integers(0, 59),
    budget=st.integers(64, 4000),
)  # fmt: skip
async def test_text_fits_the_budget_and_holds_the_line_of_the_error(
    tmp_path: Path, bodies: list[list[str]], chosen: int, at: int, budget: int
) -> None:
    """A prompt that is too long is refused; one without the failing line is useless."""
    lines: list[str] = []
    starts: list[int] = []
    for number, body in enumerate(bodies):
        lines.append(f"def function_{number}():")
        starts.append(len(lines))
        lines += [f"    '{len(lines)}'; {text!r}" for text in body]
    (tmp_path / "long.py").write_text("\n".join(lines) + "\n")
    chosen = chosen % len(bodies)
    line = starts[chosen] + 1 + at % len(bodies[chosen])

    seen = await collect(tmp_path, error=error(frame("long.py", line)), budget=budget)

    assert seen["tokens"] == estimated(seen["text"]) <= budget
    first = seen["excerpts"][0]
    assert first["start"] <= line <= first["end"]
    if estimated(lines[line - 1]) + 40 <= budget:
        assert lines[line - 1] in seen["text"]


CHAIN = """from rates import rate


def failing(price):
    return price / rate()


def caller():
    return failing(1)


def stranger():
    return 6
"""
RATES = """def rate():
    return table()["x"]


def table():
    return {"x": zero()}


def zero():
    return 0
"""


@pytest.mark.proves("000-14")
async def test_rest_of_the_budget_holds_a_map_of_what_is_near(tmp_path: Path) -> None:
    """The cause may be two calls away from the error; what no call leads to is noise."""
    (tmp_path / "prices.py").write_text(CHAIN)
    (tmp_path / "rates.py").write_text(RATES)

    seen = await collect(tmp_path, error=error(frame("prices.py", 5)), budget=400)

    assert [each["symbol"] for each in seen["excerpts"]] == ["failing", "rate"]
    excerpts, _, mapped = seen["text"].partition("Definitions near these, with their lines:\n")
    assert "def table" not in excerpts
    assert mapped.startswith("```\nprices.py:\n  8: def caller()\nrates.py:\n  5: def table()\n")
    assert "stranger" not in mapped
    assert "failing" not in mapped
    assert seen["no_map"] == ""


@pytest.mark.proves("002-04")
async def test_failing_function_of_a_large_project_and_its_callers_fit(tmp_path: Path) -> None:
    """Fifty files do not fit; the failing function, its callers and what it uses do."""
    for number in range(50):
        others = "".join(f"def other_{number}_{n}(a):\n    return a + {n}\n\n\n" for n in range(40))
        call = f"module_{number + 1}.step(a)" if number < 49 else "1 / a"
        head = f"import module_{number + 1}\n\n\n" if number < 49 else ""
        text = f"{head}{others}def step(a):\n    return {call}\n"
        (tmp_path / f"module_{number}.py").write_text(text, encoding="utf-8")
    line = [3 + 160 + 2] * 2 + [160 + 2]
    stack = error(
        *(frame(f"/work/module_{n}.py", at) for n, at in zip((47, 48, 49), line, strict=True))
    )

    seen = await collect(tmp_path, error=stack, budget=1000)

    assert seen["tokens"] == estimated(seen["text"]) <= 1000
    shown = [(each["path"], each["symbol"], each["whole"]) for each in seen["excerpts"]]
    assert shown[:3] == [(f"module_{n}.py", "step", True) for n in (49, 48, 47)]
    assert "def step(a):\n    return 1 / a\n" in seen["text"]


@pytest.fixture
def no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without bubblewrap."""
    monkeypatch.setenv("PATH", str(tmp_path))
    bubblewrap.find.cache_clear()
    yield
    bubblewrap.find.cache_clear()


@pytest.mark.usefixtures("no_sandbox")
async def test_excerpts_are_there_if_the_files_cannot_be_mapped(tmp_path: Path) -> None:
    """A hostile file may break a parser; the error can still be fixed without the map."""
    (tmp_path / "unmapped.py").write_text(f"# no map\n{CHAIN}")

    seen = await collect(tmp_path, error=error(frame("unmapped.py", 6)))

    assert "lines 5 to 6, `failing`" in seen["text"]
    assert "Definitions near these" not in seen["text"]
    assert "bubblewrap" in seen["no_map"]


@pytest.mark.extended
@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    calls=st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=12, max_size=12),
    long=st.sets(st.integers(0, 11), max_size=4),
    chosen=st.integers(0, 11),
    budget=st.integers(64, 900),
)  # fmt: skip
async def test_map_never_displaces_an_excerpt_and_stays_in_the_budget(
    tmp_path: Path, calls: list[list[int]], long: set[int], chosen: int, budget: int
) -> None:
    """The map is the first to be cut: the failing function is worth more than any name."""
    lines: list[str] = []
    for number, called in enumerate(calls):
        if number == chosen:
            line = len(lines) + 2
        lines.append(f'def function_{number}(a, b="`"):')
        lines += ["    a = a + 1"] * (60 if number in long else 1)
        lines += [f"    function_{each}(a)" for each in called]
    (tmp_path / "graph.py").write_text("\n".join(lines) + "\n")

    seen = await collect(tmp_path, error=error(frame("graph.py", line)), budget=budget)

    assert seen["tokens"] == estimated(seen["text"]) <= budget
    first = seen["excerpts"][0]
    assert first["symbol"] == f"function_{chosen}"
    shown = "\n".join(lines[first["start"] - 1 : first["end"]])
    assert shown in seen["text"]
    assert first["start"] <= line <= first["end"]
