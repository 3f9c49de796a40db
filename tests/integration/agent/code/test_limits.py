"""What an answer may never change, however it names it."""

import json
from pathlib import Path

from tests.integration.agent.code.conftest import commit, git, repository
from tests.integration.agent.code.test_fix_bug import COMMAND, PROGRAM, RIGHT, TESTS
from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth

REFUSALS = {
    "setup.py": ("may_touch", "setup.py is not one of the files to change: shop/**."),
    "shop/old.py": ("symbolic_link", "shop/old.py leads through the symbolic link shop/old.py."),
    "tests/test_prices.py": (
        "protected",
        "tests/test_prices.py must not be changed: the change is tested by it.",
    ),
    ".git/config": ("git_directory", "'.git/config' lies in a git directory."),
}
"""The file that an answer changes, and the refusal."""


def shop(folder: Path) -> Path:
    """A repository with a bug, a symbolic link, and a file that may not be changed."""
    files = {"shop/__init__.py": "", "shop/prices.py": PROGRAM, "tests/test_prices.py": TESTS}
    root = repository(folder / "shop", files | {"setup.py": PROGRAM})
    (root / "shop" / "old.py").symlink_to("prices.py")
    commit(root)
    return root


def test_each_limit_refuses_the_answer_and_the_run_says_so(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The next prompt has the refusal, its step has the reason, and nothing is changed."""
    repo = shop(tmp_path)
    model = empty_house.model.when("")
    for path in REFUSALS:
        model.say(RIGHT.replace("shop/prices.py", path))
    words = ["--may-touch", "shop/**", "--repo", str(repo), "--json"]

    done = hearth("code", "fix", COMMAND, *words)

    assert done.exit_code == 1, done.output
    with empty_house.client() as client:
        steps = client.get(f"/api/runs/{json.loads(done.output)['run']}").json()["steps"]
    outputs = {step["path"]: step["output"] for step in steps}
    for number, (path, refusal) in enumerate(REFUSALS.items()):
        edit = outputs[f"rounds[0]/attempts[{number}]/edit"]
        assert [(one["reason"], one["message"]) for one in edit["refusals"]] == [refusal], path
        assert not edit["applied"]
        assert outputs[f"rounds[0]/attempts[{number}]/state"]["changed"] is False
        told = outputs[f"rounds[0]/attempts[{number}]/note"]["value"]
        assert told == f"Your last answer was refused, and nothing was changed. {refusal[1]}"
    prompts = [each.body["messages"][-1]["content"] for each in empty_house.model.requests]
    for refusal, prompt in zip(
        REFUSALS.values(), prompts[1:], strict=False
    ):  # the last is not used
        assert refusal[1] in prompt
    assert git(repo, "branch", "--list", "run/*") == ""
    assert git(repo, "status", "--porcelain") == ""
