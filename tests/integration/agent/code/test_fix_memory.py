"""Fixes that `hearth code fix` stores and tries again: real repositories, a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.code.conftest import git, repository
from tests.integration.agent.code.test_fix_bug import CHECK, COMMAND, PROGRAM, RIGHT, TESTS, WRONG
from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, command

EXTENDED_INPUTS = [
    "pipecatapp/workflows/fix-bug.yaml", "pipecatapp/tools/code/**",
    "pipecatapp/application/fixes.py",
]  # fmt: skip

# The same function in another file, between other functions.
OTHER = PROGRAM.replace(
    "def cheapest", "def first(prices):\n    return prices[0]\n\n\ndef cheapest"
)
MISSPELT = PROGRAM.replace("(1 + discount", "(1 - discuont")


def shop(root: Path, program: str = PROGRAM, module: str = "prices") -> Path:
    """A repository with a program, in this module of the package, and its tests."""
    tests = TESTS.replace("shop.prices", f"shop.{module}")
    return repository(
        root, {"shop/__init__.py": "", f"shop/{module}.py": program, "tests/test_prices.py": tests}
    )


def fix(hearth: Hearth, repo: Path, *more: str) -> list[str]:
    """Let the bug be fixed; returns the lines that the command printed."""
    done = hearth("code", "fix", COMMAND, "--repo", str(repo), *more)
    assert done.exit_code == 0, done.output
    lines: list[str] = done.output.splitlines()
    return lines


def stored(house: House) -> list[dict[str, Any]]:
    with house.client() as client:
        found: list[dict[str, Any]] = client.get("/api/fixes").json()["fixes"]
    return found


def counts(house: House) -> tuple[int, int, int]:
    [entry] = stored(house)
    return entry["asked"], entry["applied"], entry["green"]


@pytest.mark.proves("002-26")
def test_same_bug_in_another_repository_is_fixed_without_the_model(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The first fix is written by the model; the second is the same change at another place."""
    empty_house.model.when("").say(RIGHT)
    fix(hearth, shop(tmp_path / "first"))
    asked = len(empty_house.model.requests)
    [entry] = stored(empty_house)
    second = shop(tmp_path / "second", OTHER, "sums")

    lines = fix(hearth, second, "--check", CHECK.replace("shop.prices", "shop.sums"))

    assert asked == len(empty_house.model.requests) == 1
    assert entry["signature"] == "AssertionError: <n> [test_total]"
    assert (entry["pattern"], entry["language"]) == ("AssertionError: <n>", "Python")
    assert (entry["asked"], entry["applied"], entry["green"]) == (1, 1, 1)
    [change] = entry["edit"]
    assert (change["path"], change["symbol"]) == ("shop/prices.py", "total")
    assert change["lines"][-1] == "+    return sum(prices) * (1 - discount / 100)"
    assert lines[1] == (
        "Fix from memory, which worked 1 of 1 times: changed shop/sums.py; the command succeeds."
    )
    branch = lines[2].removeprefix("The fix is on the branch ").removesuffix(".")
    assert git(second, "diff", "--unified=0", f"main..{branch}").splitlines()[-1] == (
        "+    return sum(prices) * (1 - discount / 100)"
    )
    assert "Fix from memory" in git(second, "log", "-1", "--format=%B", branch)
    assert counts(empty_house) == (2, 2, 2)


@pytest.mark.extended
def test_stored_fix_that_fails_is_counted_and_the_model_is_next(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """Here the same line needs another change; the next attempt begins with the code as it was."""
    answer = RIGHT.replace("(1 - discount / 100)", "(1 - discount)")
    empty_house.model.when("").say(RIGHT).say(answer)
    fix(hearth, shop(tmp_path / "first"))
    second = shop(tmp_path / "second")
    test = second / "tests" / "test_prices.py"
    test.write_text(TESTS.replace("10.0], 50)", "10.0], 0.5)"))
    git(second, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "As a fraction")

    lines = fix(hearth, second)

    assert lines[1].startswith(
        "Fix from memory, which worked 1 of 1 times: changed shop/prices.py; it fails with Assert"
    )
    assert lines[2] == "Attempt 1: changed shop/prices.py; the command succeeds."
    assert len(empty_house.model.requests) == 2
    tries = [(one["asked"], one["applied"], one["green"]) for one in stored(empty_house)]
    assert sorted(tries) == [(1, 1, 1), (2, 2, 1)]


@pytest.mark.extended
def test_stored_fix_of_a_protected_file_is_refused(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """A stored change obeys the same rules as the answer of a model."""
    empty_house.model.when("").say(RIGHT)
    fix(hearth, shop(tmp_path / "first"))
    second = shop(tmp_path / "second")

    done = hearth("code", "fix", COMMAND, "--repo", str(second), "--protect", "shop/**")

    assert done.exit_code == 1
    assert "worked 1 of 1 times: the change is refused: shop/prices.py must not" in done.output
    assert counts(empty_house) == (2, 1, 1)


def test_nothing_is_stored_while_the_test_fails(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """A change that did not help must not be offered."""
    empty_house.model.when("").say(WRONG)

    done = hearth("code", "fix", COMMAND, "--repo", str(shop(tmp_path / "first")))

    assert done.exit_code == 1
    assert stored(empty_house) == []


@pytest.mark.extended
def test_mechanical_repair_is_stored(hearth: Hearth, empty_house: House, tmp_path: Path) -> None:
    """The next time it needs no search for similar names."""
    first = hearth("code", "fix", "python3 -m pytest -q", "--repo", str(_misspelt(tmp_path, "a")))
    second = hearth("code", "fix", "python3 -m pytest -q", "--repo", str(_misspelt(tmp_path, "b")))

    assert "Repaired without a model" in first.output
    assert "Fix from memory, which worked 1 of 1 times" in second.output
    assert empty_house.model.requests == []
    assert counts(empty_house) == (2, 2, 2)


def _misspelt(root: Path, name: str) -> Path:
    return shop(root / name, MISSPELT)


@pytest.mark.extended
@pytest.mark.proves("002-26")
def test_exported_fix_is_used_in_another_home(
    hearth: Hearth, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second home has never asked the model; importing the same file twice changes nothing."""
    empty_house.model.when("").say(RIGHT)
    fix(hearth, shop(tmp_path / "first"))
    exported = hearth("fixes", "export")
    (tmp_path / "fixes.json").write_text(exported.stdout)
    home = House(tmp_path / "home", empty_house.model, empty_house.gateway)
    home.state.mkdir()
    for name in ("key", "service_key"):
        (home.state / name).write_bytes((empty_house.state / name).read_bytes())
    other = command(home, monkeypatch)

    imported = other("fixes", "import", str(tmp_path / "fixes.json"))
    again = other("fixes", "import", str(tmp_path / "fixes.json"))
    lines = fix(other, shop(tmp_path / "second"))
    [entry] = json.loads(other("fixes", "--json").stdout)["fixes"]
    shown = other("fixes", "show", entry["id"])
    forgotten = other("fixes", "forget", entry["id"])

    assert imported.output == "Imported 1 new fix.\n"
    assert again.output == "Imported 0 new fixes.\n"
    assert lines[1].startswith("Fix from memory, which worked 1 of 1 times: changed")
    assert len(empty_house.model.requests) == 1
    assert (entry["source"], entry["asked"], entry["green"]) == ("import", 2, 2)
    assert "\nWorked 2 of 2 times; stored" in shown.output
    assert shown.output.endswith(
        "shop/prices.py total\n"
        " def total(prices: list[float], discount: float) -> float:\n"
        '     """Add prices and subtract a discount in per cent."""\n'
        "-    return sum(prices) * (1 + discount / 100)\n"
        "+    return sum(prices) * (1 - discount / 100)\n"
    )
    assert forgotten.exit_code == 0
    assert json.loads(other("fixes", "--json").stdout) == {"fixes": [], "total": 0}


def test_import_reports_every_wrong_entry_and_stores_none(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """A person corrects the file once, not once for each entry."""
    change = {"path": "a.py", "symbol": "f", "lines": ["-x", "+y"]}
    right = {
        "signature": "E: m [f]", "pattern": "E: m", "language": "Python", "edit": [change],
        "at": "2026-01-01T00:00:00.000Z", "asked": 1, "applied": 1, "green": 1,
    }  # fmt: skip
    wrong = [right | {"green": 2}, right | {"edit": [change | {"path": "/etc/passwd"}]}, 3]
    file = tmp_path / "fixes.json"
    file.write_text(json.dumps({"format": 1, "fixes": [right, *wrong]}))

    result = hearth("fixes", "import", str(file))

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "Fix 2: green must not be above applied, nor applied above asked.",
        "Fix 3: edit.0: path must be a relative path without .",
        "Fix 4: Input should be an object.",
        "Nothing was imported.",
    ]
    assert stored(empty_house) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "The file is not valid JSON"), ('{"format": 2, "fixes": []}', "not an export")],
)
def test_other_file_is_not_imported(hearth: Hearth, tmp_path: Path, text: str, reason: str) -> None:
    """The error says what kind of file is needed."""
    (tmp_path / "other.json").write_text(text)

    result = hearth("fixes", "import", str(tmp_path / "other.json"))

    assert result.exit_code == 2
    assert reason in result.stderr
