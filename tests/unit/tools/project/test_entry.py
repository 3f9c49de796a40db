"""The tool `project.entry`: the one file that a program is started with."""

from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context


async def entry(files: list[str], command: str = "") -> Any:
    return await TOOLS["project.entry"].check(Context(), {"files": files, "command": command})


@pytest.mark.proves("002-34")
@pytest.mark.parametrize(
    ("files", "command", "file"),
    [
        (["main.py", "util.py"], "python3 main.py --fast", "main.py"),
        (["main.py", "util.py"], "python3 ./util.py", "util.py"),
        (["shop/__main__.py"], "python3 -m shop", "shop/__main__.py"),
        (["shop/cli.py"], "PYTHONPATH=. python3 -m shop.cli", "shop/cli.py"),
        (["in.txt", "main.js"], "cat in.txt | node main.js", "main.js"),
        (["schema.sql"], 'sqlite3 a.db ".read schema.sql"', "schema.sql"),
        (["schema.sql"], "sqlite3 a.db <schema.sql", "schema.sql"),
        (["run.sh"], "sh -c 'cd . && bash run.sh'", "run.sh"),
        (["Makefile", "a.c"], "make run", "Makefile"),
        (["main.py"], "python3 other.py", None),
        (["main.py"], "python3 'main.py", "main.py"),
        (["main.go"], "", None),
        ([], "true", None),
    ],
)
async def test_command_starts_one_of_the_files(
    files: list[str], command: str, file: str | None
) -> None:
    """A plan whose command starts something else would not run what is written."""
    found = await entry(files, command)

    assert found["file"] == file
    assert bool(found["problem"]) == (file is None)
    assert found["command"] == command


@pytest.mark.proves("002-08", "002-34")
@pytest.mark.parametrize(
    ("files", "command", "ignore"),
    [
        (["notes.txt", "a b.py"], "python3 'a b.py'", ["__pycache__/", ".venv/"]),
        (["main.js"], "node main.js", ["node_modules/"]),
        (["main.sh", "x.py"], "bash main.sh", ["__pycache__/", ".venv/"]),
        (["main.sql"], 'sqlite3 -bail :memory: ".read main.sql"', []),
    ],
)
async def test_without_a_command_the_first_file_gets_the_runner_of_its_language(
    files: list[str], command: str, ignore: list[str]
) -> None:
    """A small model may leave it out."""
    found = await entry(files)

    assert (found["command"], found["ignore"], found["problem"]) == (command, ignore, "")
