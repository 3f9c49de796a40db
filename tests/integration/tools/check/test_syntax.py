"""The tool `check.syntax`: each language by its own parser, in the sandbox."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

GOOD = {
    "main.py": "match 1:\n    case 1: print('a')\n",
    "main.js": "import fs from 'fs';\nconsole.log(fs ?? 1);\n",
    "main.sh": "a=(1 2)\nif true; then echo \"${a[1]}\"; fi\n",
    "plain": "#!/bin/sh\necho a\n",
    "main.sql": ".headers on\n-- All.\nCREATE TABLE t (a);\n"
    "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END;\n"
    "INSERT INTO t VALUES ('a;b'); SELECT * FROM t, missing",
    "a.json": "{}", "a.yaml": "a: 1\n", "a.toml": "a = 1\n",
    "main.go": "package main\n\nfunc main() {}\n",
}  # fmt: skip
BAD = {
    "main.py": ("a = 1\ndef f(:\n    pass\n", "Python", 2),
    "main.js": ("const a = 1;\nconst b = ;\n", "JavaScript", 2),
    "main.sh": ("echo a\nif true; then\n  echo b\n", "Shell", 4),
    "main.sql": ("SELECT 1;\n\nSELEC 2;\n", "SQL", 3),
    "a.json": ('{\n "a": 1,,\n}', "JSON", 2),
    "a.yaml": ("a: 1\nb: [\n", "YAML", 3),
}


def written(folder: Path, files: dict[str, str]) -> Context:
    (folder / "work").mkdir()
    for name, text in files.items():
        (folder / "work" / name).write_text(text, encoding="utf-8")
    return Context(workspace=folder / "work", services={Sandbox: Sandbox()})


async def check(ctx: Context, *files: str) -> Any:
    return await TOOLS["check.syntax"].check(ctx, {"files": list(files)})


@pytest.mark.proves("002-08")
async def test_files_that_parse_are_checked_and_none_is_run(tmp_path: Path) -> None:
    """What names a table or a module that is not there still parses."""
    trap = {"trap.py": "open('ran', 'w')\n", "trap.sh": "touch ran\n"}
    ctx = written(tmp_path, GOOD | trap | {"LICENSE": "Words."})

    told = await check(ctx)

    assert (told["ok"], told["problems"], told["error"]) == (True, [], None)
    assert told["checked"] == sorted({*GOOD, *trap} - {"plain"})
    assert not (tmp_path / "work" / "ran").exists()
    assert (await check(ctx, "plain", "LICENSE", "none.py")) == {
        "ok": True, "problems": [], "error": None, "checked": ["plain"],
        "unchecked": ["LICENSE", "none.py"], "cut": False,
    }  # fmt: skip


@pytest.mark.proves("002-08")
@pytest.mark.parametrize("name", BAD)
async def test_syntax_error_has_its_file_language_and_line(tmp_path: Path, name: str) -> None:
    """In the form of an error of code.run, so that the same loop repairs it."""
    text, language, line = BAD[name]

    told = await check(written(tmp_path, {name: text}), name)

    (problem,) = told["problems"]
    assert told["ok"] is False
    assert (problem["path"], problem["language"], problem["line"]) == (name, language, line)
    assert problem["certain"] is True
    assert (told["error"]["file"], told["error"]["line"]) == (name, line)
    assert told["error"]["message"] == problem["message"] != ""
    assert told["error"]["signature"]


async def test_grammar_alone_is_not_certain(tmp_path: Path) -> None:
    """A macro of C is no error that stops a workflow."""
    told = await check(written(tmp_path, {"a.go": "package main\n\nfunc main( {\n"}))

    (problem,) = told["problems"]
    assert (told["ok"], problem["certain"], told["error"]) == (True, False, None)
    assert problem["line"] == 3


async def test_hostile_names_and_paths_are_only_names(tmp_path: Path) -> None:
    """A file whose name is an option, or has a line break, is a file; a path outside is refused."""
    files = {"--eval=1.js": "const = 1", "a\nb.py": "def", "-c.sh": "if"}
    ctx = written(tmp_path, files)

    told = await check(ctx)

    assert {one["path"] for one in told["problems"]} == set(files)
    with pytest.raises(ToolFailed, match="leads out of the workspace"):
        await check(ctx, "../outside.py")
