"""`hearth code fix`: real repositories and sandboxes, a scripted model."""

import json
from pathlib import Path

import pytest

from tests.integration.agent.code.conftest import commit, follow_until, git, prompts, repository
from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth

EXTENDED_INPUTS = [
    "pipecatapp/workflows/fix-bug.yaml", "pipecatapp/tools/code/**", "pipecatapp/sandbox/**",
]  # fmt: skip

PROGRAM = '''"""Prices."""


def total(prices: list[float], discount: float) -> float:
    """Add prices and subtract a discount in per cent."""
    return sum(prices) * (1 + discount / 100)


def cheapest(prices: list[float]) -> float:
    return min(prices)


def dearest(prices: list[float]) -> float:
    return max(prices)
'''
TESTS = '''"""Tests without a test runner, so that nothing has to be installed."""

from shop.prices import cheapest, total


def test_total():
    assert total([10.0, 10.0], 50) == 10.0, total([10.0, 10.0], 50)


def test_cheapest():
    assert cheapest([2.0, 1.0]) == 1.0


if __name__ == "__main__":
    test_total()
'''
COMMAND = "python3 tests/test_prices.py"
CHECK = "python3 -c 'from tests.test_prices import test_cheapest; test_cheapest()'"
RIGHT = """The discount is added, but it must be subtracted.

shop/prices.py
```
<<<<<<< SEARCH
    return sum(prices) * (1 + discount / 100)
=======
    return sum(prices) * (1 - discount / 100)
>>>>>>> REPLACE
```
"""
WRONG = RIGHT.replace("(1 - discount", "(2 - discount")
IN_TEST = RIGHT.replace("shop/prices.py", "tests/test_prices.py")
WORSE = [RIGHT.replace("(1 - discount", f"({number} - discount") for number in range(2, 6)]
BREAKS = RIGHT.replace(
    ">>>>>>> REPLACE",
    """>>>>>>> REPLACE
<<<<<<< SEARCH
    return min(prices)
=======
    return max(prices)
>>>>>>> REPLACE""",
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a bug that one of its tests shows."""
    files = {"shop/__init__.py": "", "shop/prices.py": PROGRAM, "tests/test_prices.py": TESTS}
    return repository(tmp_path / "shop", files)


@pytest.mark.proves("002-02", "002-06")
def test_fix_is_a_branch_whose_diff_is_the_change(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """A refused answer and a wrong one are reported, tried again from the start, and not kept."""
    empty_house.model.when("").say(IN_TEST).say(WRONG).say(RIGHT)
    before = git(repo, "rev-parse", "main")

    done = hearth("code", "fix", COMMAND, "--repo", str(repo))

    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "AssertionError: 30.0 (tests/test_prices.py:7)"
    assert lines[1].startswith("Attempt 1: the change is refused: tests/test_prices.py must not")
    assert lines[2].startswith("Attempt 2: changed shop/prices.py; it fails with AssertionError")
    assert lines[3] == "Attempt 3: changed shop/prices.py; the command succeeds."
    branch = lines[4].removeprefix("The fix is on the branch ").removesuffix(".")
    assert len(lines) == 5
    assert git(repo, "diff", "--unified=0", f"main..{branch}").splitlines()[-2:] == [
        "-    return sum(prices) * (1 + discount / 100)",
        "+    return sum(prices) * (1 - discount / 100)",
    ]
    assert "The discount is added" in git(repo, "log", "-1", "--format=%B", branch)
    assert git(repo, "rev-parse", "main") == before
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.extended
@pytest.mark.proves("000-14", "002-05")
def test_each_prompt_has_the_error_the_code_and_the_last_attempt(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """A model that does not see why its answer failed gives the same answer again."""
    empty_house.model.when("").say(IN_TEST).say(WRONG).say(RIGHT)

    hearth("code", "fix", COMMAND, "--repo", str(repo), "--about", "Discounts are wrong.")

    first, second, third = prompts(empty_house)
    for prompt in (first, second, third):
        assert "Discounts are wrong." in prompt
        assert "AssertionError: 30.0" in prompt
        assert "shop/prices.py, lines 4 to 6, `total`:" in prompt
        assert "`test_total` (must not be changed):" in prompt
        assert "def dearest" not in prompt
    assert "refused" not in first
    assert "Your last answer was refused" in second
    assert "tests/test_prices.py must not be changed" in second
    assert "+    return sum(prices) * (2 - discount / 100)" in third
    assert "the command fails with the same error." in third.partition("was tried and taken")[2]


@pytest.mark.proves("002-03")
def test_fix_that_breaks_the_check_is_not_delivered(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """The failing test passes, but another one fails now."""
    empty_house.model.when("").say(BREAKS).say(RIGHT)

    done = hearth("code", "fix", COMMAND, "--check", CHECK, "--repo", str(repo))

    assert done.exit_code == 0, done.output
    assert f"Attempt 1: changed shop/prices.py; {CHECK} fails with AssertionError" in done.output
    assert f"this command fails: {CHECK}" in prompts(empty_house)[1]
    assert "Attempt 2: changed shop/prices.py; the command succeeds." in done.output


@pytest.mark.extended
def test_test_that_failed_before_need_not_pass_but_no_other_may_fail(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """Many projects have a test that fails anyway; pytest is fetched because the check names it."""
    with (repo / "tests" / "test_prices.py").open("a") as file:
        file.write("\n\ndef test_that_fails_anyway():\n    assert total([1.0], 0) == 2.0\n")
    commit(repo)
    empty_house.model.when("").say(BREAKS).say(RIGHT)

    done = hearth("code", "fix", COMMAND, "--check", "pytest -q", "--repo", str(repo))

    assert done.exit_code == 0, done.output
    prompt = prompts(empty_house)[1]
    assert "in tests that passed before: tests/test_prices.py::test_cheapest with" in prompt
    assert "Attempt 2: changed shop/prices.py; the command succeeds." in done.output


@pytest.mark.proves("002-01")
def test_model_that_repeats_itself_is_stuck_and_nothing_is_delivered(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """The same failure twice in a row would be a third time; a script is not asked for guidance."""
    empty_house.model.when("").say(WRONG)

    done = hearth("code", "fix", COMMAND, "--repo", str(repo), "--json")

    assert done.exit_code == 1
    assert len(empty_house.model.requests) == 2
    outputs = json.loads(done.output)["outputs"]
    assert outputs["fixed"] is False
    assert outputs["branch"] is None
    assert "(2 - discount" in outputs["diff"]
    error = outputs["error"]
    assert (error["type"], error["message"]) == ("AssertionError", "30.0")
    assert (error["file"], error["line"], error["symbol"]) == (
        "/work/tests/test_prices.py", 7, "test_total",
    )  # fmt: skip
    with empty_house.client() as client:
        run = client.get(f"/api/runs/{json.loads(done.output)['run']}").json()
    (before,) = [step for step in run["steps"] if step["path"] == "before"]
    assert before["input"]["command"] == COMMAND
    assert before["output"]["stderr"].endswith("AssertionError: 30.0\n")
    assert git(repo, "branch", "--list", "run/*") == ""


@pytest.mark.extended
@pytest.mark.proves("002-16")
def test_model_that_goes_back_to_an_earlier_answer_is_stuck_and_a_person_is_asked(
    empty_house: House, repo: Path
) -> None:
    """A, B, A: a fourth attempt would be B again."""
    empty_house.model.when("").say(WORSE[0]).say(WORSE[1]).say(WORSE[0]).say(RIGHT)
    body = {"workflow": "fix-bug", "inputs": {"repo": str(repo), "command": COMMAND}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        view = follow_until(client, run, "node.waiting")
        (question,) = [step for step in view["steps"] if step["status"] == "waiting"]
        client.post(f"/api/runs/{run}/cancel")

    assert len(empty_house.model.requests) == 3
    assert "not fixed after 3 attempts" in question["facts"]["question"]["text"]


@pytest.mark.extended
def test_guidance_of_a_person_is_in_the_next_prompt(empty_house: House, repo: Path) -> None:
    """The run waits for a person when it is stuck, and goes on with the answer."""
    empty_house.model.when("Subtract it").say(RIGHT)
    empty_house.model.when("").say(WRONG)
    body = {"workflow": "fix-bug", "inputs": {"repo": str(repo), "command": COMMAND}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        empty_house.model.wait_until(lambda model: len(model.requests) == 2)
        view = follow_until(client, run, "node.waiting")
        (question,) = [step for step in view["steps"] if step["status"] == "waiting"]
        assert "(2 - discount" in question["facts"]["question"]["show"]
        answer = {"path": question["path"], "value": "Subtract it from 1."}
        assert client.post(f"/api/runs/{run}/answer", json=answer).is_success
        view = follow_until(client, run, "end")

    assert view["outputs"]["fixed"] is True
    assert "A person says: Subtract it from 1." in prompts(empty_house)[-1]


@pytest.mark.extended
def test_fourth_attempt_fixes_it_and_each_begins_with_the_same_code(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """Changes of attempts that failed must not add up."""
    wrong = empty_house.model.when("")
    for answer in [*WORSE[:3], RIGHT]:
        wrong.say(answer)

    done = hearth("code", "fix", COMMAND, "--repo", str(repo))

    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    fails = "changed shop/prices.py; it fails with AssertionError"
    for number, line in enumerate(lines[1:4], 1):
        assert line.startswith(f"Attempt {number}: {fails}")
    assert lines[4] == "Attempt 4: changed shop/prices.py; the command succeeds."
    branch = lines[5].removeprefix("The fix is on the branch ").removesuffix(".")
    assert git(repo, "diff", "--numstat", f"main..{branch}") == "1\t1\tshop/prices.py\n"


@pytest.mark.extended
def test_person_is_asked_after_four_attempts_and_the_next_prompt_has_the_last_one(
    empty_house: House, repo: Path
) -> None:
    """Guidance such as "the other way round" means nothing without the change that it is about."""
    empty_house.model.when("The other way round").say(RIGHT)
    wrong = empty_house.model.when("")
    for each in WORSE:
        wrong.say(each)
    body = {"workflow": "fix-bug", "inputs": {"repo": str(repo), "command": COMMAND}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        view = follow_until(client, run, "node.waiting")
        (question,) = [step for step in view["steps"] if step["status"] == "waiting"]
        assert "not fixed after 4 attempts" in question["facts"]["question"]["text"]
        answer = {"path": question["path"], "value": "The other way round."}
        assert client.post(f"/api/runs/{run}/answer", json=answer).is_success
        view = follow_until(client, run, "end")

    assert view["outputs"]["fixed"] is True
    *_, last = prompts(empty_house)
    assert len(prompts(empty_house)) == 5
    assert "A person says: The other way round." in last
    assert "+    return sum(prices) * (5 - discount / 100)" in last


TWO_BUGS = {
    "shop/__init__.py": "",
    "shop/prices.py": PROGRAM.replace("min(prices)", "max(prices)"),
    "tests/test_prices.py": TESTS,
}
HEAD = "def cheapest(prices: list[float]) -> float:\n"
CHEAPEST = RIGHT.replace(
    "    return sum(prices) * (1 + discount / 100)\n", f"{HEAD}    return max(prices)\n"
).replace("    return sum(prices) * (1 - discount / 100)\n", f"{HEAD}    return min(prices)\n")


@pytest.mark.extended
def test_attempt_with_fewer_failing_tests_is_the_base_of_the_next(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """Two bugs need two changes; the second answer has only the second one."""
    repo = repository(tmp_path / "shop", TWO_BUGS)
    empty_house.model.when("is kept:").say(CHEAPEST)
    empty_house.model.when("").say(RIGHT)

    done = hearth("code", "fix", "python3 -m pytest -q", "--repo", str(repo))

    assert done.exit_code == 0, done.output
    assert "Attempt 2: changed shop/prices.py; the command succeeds." in done.output
    first, second = prompts(empty_house)
    assert "(1 + discount / 100)" in first
    assert "With this change fewer tests fail, and it is kept:" in second
    assert "Its error is AssertionError: assert 2.0 == 1.0" in second
    branch = done.output.split("on the branch ")[1].split(".")[0]
    assert git(repo, "diff", "--numstat", f"main..{branch}") == "2\t2\tshop/prices.py\n"


def with_experts(house: House, *names: str, slots: int = 1) -> None:
    """Let the gateway have experts of these names, each with so many free slots."""
    house.model.experts = [
        {
            "name": name,
            "model": f"{name}-model",
            "healthy": True,
            "instances": [{"healthy": True, "slots": slots}],
        }
        for name in names
    ]


def test_each_attempt_asks_the_next_model_and_a_person_is_last(
    empty_house: House, repo: Path
) -> None:
    """The small model costs least; guidance is for the biggest one, and one that is not there is
    left out.
    """
    with_experts(empty_house, "small", "big")
    empty_house.model.when("The other way round").say(RIGHT)
    wrong = empty_house.model.when("")
    for each in WORSE:
        wrong.say(each)
    body = {"workflow": "fix-bug", "inputs": {"repo": str(repo), "command": COMMAND}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        view = follow_until(client, run, "node.waiting")
        (question,) = [step for step in view["steps"] if step["status"] == "waiting"]
        answer = {"path": question["path"], "value": "The other way round."}
        assert client.post(f"/api/runs/{run}/answer", json=answer).is_success
        view = follow_until(client, run, "end")

    assert view["outputs"]["fixed"] is True
    asked = [each.body["model"] for each in empty_house.model.requests]
    assert asked == ["small", "big", "big", "big", "big"]
    wide = {step["path"]: step["output"] for step in view["steps"] if step["path"].endswith("wide")}
    assert [wide[f"rounds[0]/attempts[{n}]/wide"]["value"] for n in range(4)] == [
        False, False, False, True
    ]  # fmt: skip


@pytest.fixture
def three_slots(empty_house: House) -> None:
    """One expert with three free slots, before the agent reads the experts at its start."""
    with_experts(empty_house, "coder", slots=3)


@pytest.mark.extended
@pytest.mark.usefixtures("three_slots")
def test_free_slots_give_several_patches_and_the_right_one_is_applied(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """Each is tested in its own copy of the code; only one of three is right."""
    empty_house.model.when("").say(WRONG).say(RIGHT).say(IN_TEST)

    done = hearth("code", "fix", COMMAND, "--repo", str(repo), "--json")

    assert done.exit_code == 0, done.output
    assert len(empty_house.model.requests) == 3
    with empty_house.client() as client:
        run = client.get(f"/api/runs/{json.loads(done.output)['run']}").json()
    outputs = {step["path"]: step["output"] for step in run["steps"]}
    attempt = "rounds[0]/attempts[0]"
    failures = [outputs[f"{attempt}/tries[{n}]/failures"]["value"] for n in range(3)]
    assert sorted(failures) == [0, 1, 1_000_000]
    assert outputs[f"{attempt}/edit"]["applied"]
    assert f"{attempt}/propose" not in {p for p, output in outputs.items() if output}
    branch = run["outputs"]["branch"]
    assert git(repo, "diff", "--unified=0", f"main..{branch}").splitlines()[-1] == (
        "+    return sum(prices) * (1 - discount / 100)"
    )
    counted = [outputs[f"{attempt}/tries[{n}]/count"] for n in range(3)]
    assert max(counted, key=lambda one: one["asked"]) == {"asked": 3, "applied": 2, "green": 1}


def test_small_model_fills_in_one_function(hearth: Hearth, empty_house: House, repo: Path) -> None:
    """The answer is JSON under a schema, so that it cannot be malformed."""
    source = '''def total(prices: list[float], discount: float) -> float:
    """Add prices and subtract a discount in per cent."""
    return sum(prices) * (1 - discount / 100)
'''
    answer = {"path": "shop/prices.py", "symbol": "total", "source": source}
    empty_house.model.when("").say(json.dumps(answer))

    done = hearth("code", "fix", COMMAND, "--repo", str(repo), "--edits", "function")

    assert done.exit_code == 0, done.output
    assert "Attempt 1: changed shop/prices.py; the command succeeds." in done.output
    (request,) = empty_house.model.requests
    assert request.body["response_format"]["type"] == "json_schema"


def test_command_that_succeeds_asks_no_model(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """There is nothing to fix."""
    done = hearth("code", "fix", CHECK, "--repo", str(repo))

    assert done.exit_code == 0
    assert done.output == "The command succeeds already.\n"
    assert empty_house.model.requests == []


@pytest.mark.extended
def test_mechanical_mistake_is_repaired_without_a_model(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """A misspelt name needs no model, and the repair stays within the rules for files."""
    program = PROGRAM.replace("(1 + discount", "(1 - discuont")
    (repo / "shop" / "prices.py").write_text(program)
    commit(repo)
    words = ("code", "fix", "python3 -m pytest -q", "--repo", str(repo))

    forbidden = hearth(*words, "--protect", "shop/**")
    asked = len(empty_house.model.requests)
    done = hearth(*words)

    assert forbidden.exit_code == 1
    assert asked > 0, "the model is next"
    assert done.exit_code == 0, done.output
    assert len(empty_house.model.requests) == asked
    lines = done.output.splitlines()
    assert lines[0].startswith("NameError: name 'discuont' is not defined")
    assert lines[1].startswith("Repaired without a model: ")
    branch = lines[2].removeprefix("The fix is on the branch ").removesuffix(".")
    assert git(repo, "diff", "--unified=0", f"main..{branch}").splitlines()[-1] == (
        "+    return sum(prices) * (1 - discount / 100)"
    )
    assert "Repaired without a model" in git(repo, "log", "-1", "--format=%B", branch)


@pytest.mark.extended
def test_function_that_only_the_failing_test_runs_is_in_the_prompt(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """It is not on the stack of a failed assertion, and the test does not name it."""
    program = PROGRAM.replace("(1 + discount / 100)", "_share(discount)") + (
        "\n\ndef _share(discount: float) -> float:\n    return 1 + discount / 100\n"
    )
    (repo / "shop" / "prices.py").write_text(program)
    commit(repo)
    right = "shop/prices.py\n```\n<<<<<<< SEARCH\n    return 1 + discount / 100\n=======\n"
    right += "    return 1 - discount / 100\n>>>>>>> REPLACE\n```\n"
    empty_house.model.when("").say(right)

    done = hearth("code", "fix", "python3 -m pytest -q", "--repo", str(repo))

    assert done.exit_code == 0, done.output
    assert ", `_share`:\n```\ndef _share(discount: float)" in prompts(empty_house)[0]


def test_mistakes_of_the_caller_are_one_clear_sentence(
    hearth: Hearth, repo: Path, tmp_path: Path
) -> None:
    """Nothing runs where the repository or an option is wrong."""
    (tmp_path / "plain").mkdir()

    nowhere = hearth("code", "fix", COMMAND, "--repo", str(tmp_path / "plain"))
    (repo / "shop" / "prices.py").write_text("changed")
    odd = hearth("code", "fix", COMMAND, "--repo", str(repo), "--edits", "poems")

    assert nowhere.exit_code == odd.exit_code == 2
    assert nowhere.stderr == f"There is no git repository at {tmp_path / 'plain'}.\n"
    assert odd.stderr.startswith("Changes that are not committed are left out.\n")
    assert "edits" in odd.stderr


@pytest.mark.extended
def test_mistake_of_logic_is_repaired_without_a_model(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """One operator is wrong; with --no-model, operators of the suspected function are tried."""
    words = ("code", "fix", COMMAND, "--repo", str(repo), "--no-model")

    done = hearth(*words)
    (repo / "shop" / "prices.py").write_text(PROGRAM.replace("sum(prices)", "0.5"))
    commit(repo)
    hopeless = hearth(*words)

    assert done.exit_code == 0, done.output
    assert "Repaired without a model: " in done.output
    branch = done.output.split("on the branch ")[1].split(".")[0]
    assert git(repo, "diff", "--unified=0", f"main~1..{branch}").splitlines()[-1] == (
        "+    return sum(prices) * (1 - discount / 100)"
    )
    assert hopeless.exit_code == 1
    assert hopeless.output.splitlines()[-1].startswith("The bug is not fixed. Without a model ")
    assert empty_house.model.requests == []
