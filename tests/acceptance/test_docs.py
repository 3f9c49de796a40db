"""Every block of the documentation is executed as it stands, in the order of its page."""

import json
import re
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.acceptance.conftest import Instance
from tests.acceptance.fences import Fence, fences
from tests.rules import tree
from tests.shown import Shown

PAGES = [page for page in tree.markdown() if any(f.language in {"bash", "python", "yaml", "json"}
         for f in fences(page))]  # fmt: skip


@pytest.mark.proves("001-41")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_blocks_of_a_page_work_as_written(instance: Instance, page: Path) -> None:
    """A command in the docs that does not work is worse than none."""
    ran = [fence for fence in fences(page) if not fence.elsewhere and _held_true(instance, fence)]

    assert ran or all(fence.elsewhere or fence.language == "text" for fence in fences(page))


def test_headers_of_the_page_are_those_of_an_answer(instance: Instance, shown: Shown) -> None:
    """Whoever compares theirs with the page's finds the same lines, and why it was this expert."""
    command = shown.take("docs/howto/routing.md")
    ended = instance.place.run("bash", "-euo", "pipefail", "-c", command)

    assert ended.returncode == 0, ended.stderr
    assert _kinds(ended.stdout) == _kinds(shown.take("docs/howto/routing.md"))


def _kinds(head: str) -> list[str]:
    """The lines of a head without what differs between two answers: ids, dates, figures."""
    lines = (re.sub("^date: .*|req_[0-9a-f]+", "…", line.strip()) for line in head.splitlines())
    return [re.sub("[0-9]+", "0", line) for line in lines if line]


def _held_true(instance: Instance, fence: Fence) -> bool:
    match fence.language:
        case "bash":
            _succeeds(instance, fence, "bash", "-euo", "pipefail", "-c", fence.body)
        case "python":
            _succeeds(instance, fence, sys.executable, "-c", fence.body)
        case "json":
            json.loads(fence.body)
        case "yaml":
            _is_valid_yaml(instance, fence)
        case _:
            return False
    return True


def _is_valid_yaml(instance: Instance, fence: Fence) -> None:
    if re.search(r"^(steps|graph):", fence.body, re.MULTILINE):
        file = instance.place.home / "fence.yaml"
        file.write_text(fence.body, encoding="utf-8")
        _succeeds(instance, fence, "hearth", "plan", str(file))
    else:
        YAML(typ="safe").load(fence.body)


def _succeeds(instance: Instance, fence: Fence, *command: str) -> None:
    ended = instance.place.run(*command)
    assert ended.returncode == 0, f"{fence}\n{fence.body}\n{ended.stdout}\n{ended.stderr}"
