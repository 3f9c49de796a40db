"""The tool `code.language`: by extension, shebang, fence and content."""

import time
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

PROGRAMS = {
    "Python": "import sys\n\n\ndef main() -> None:\n    print(sys.argv)\n",
    "JavaScript": "const names = ['a'];\nnames.forEach((name) => console.log(name));\n",
    "Shell": 'for name in a b; do\n  echo "$name"\ndone\n',
    "SQL": "create table t (a integer primary key);\ninsert into t values (1);\nselect * from t;\n",
    "C": '#include <stdio.h>\n\nint main(void) {\n  printf("a");\n}\n',
    "C++": "#include <iostream>\n\nint main() {\n  std::cout << 1;\n}\n",
    "Go": "package main\n\nfunc main() {\n\tfmt.Println(1)\n}\n",
    "Rust": 'fn main() {\n    let mut a = 1;\n    println!("{a}");\n}\n',
    "Java": "public class A {\n  public static void main(String[] args) {\n"
    "    System.out.println(1);\n  }\n}\n",
    "JSON": '{"a": [1, 2]}',
    "HTML": "<!DOCTYPE html>\n<html></html>\n",
}
PROSE = """Dear reader,

select the import of your choice from the list, and print it; if you do not like it, let me know.
For each of the names in the list there is a class: it is as it was.
"""


async def language(workspace: Path | None = None, **given: Any) -> Any:
    return await TOOLS["code.language"].check(Context(workspace=workspace), given)


@pytest.mark.proves("002-09")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": "a/b.py", "text": "x"}, ("Python", "extension", "python3 a/b.py")),
        ({"path": "a.MJS", "text": "x"}, ("JavaScript", "extension", "node a.MJS")),
        ({"path": "sub/Makefile", "text": "x"}, ("Make", "name", None)),
        ({"path": "tool", "text": "#!/usr/bin/env -S node --a\n"},
         ("JavaScript", "shebang", "node tool")),
        ({"text": "#!/usr/bin/python3.11 -I\n"}, ("Python", "shebang", "python3 main.py")),
        ({"text": "#!/bin/sh -e\nls\n"}, ("Shell", "shebang", "bash main.sh")),
        ({"text": "Like so:\n\n```js\nlet a\n```\nDone."}, ("JavaScript", "fence", "node main.js")),
        ({"text": "~~~ sqlite\nselect\n~~~\n"},
         ("SQL", "fence", 'sqlite3 -bail :memory: ".read main.sql"')),
        *(({"text": text}, (name, "content", None)) for name, text in PROGRAMS.items()),
    ],
)  # fmt: skip
async def test_language_is_identified_by_the_strongest_evidence(
    given: dict[str, Any], expected: tuple[str, str, str | None]
) -> None:
    """A file name is more certain than a first line, that than a fence, that than the content."""
    found = await language(**given)

    name, by, command = expected
    assert (found["language"], found["by"]) == (name, by)
    assert command is None or found["command"] == command


@pytest.mark.proves("002-09")
@pytest.mark.parametrize("name", ["Python", "JavaScript", "Shell", "SQL"])
async def test_program_in_a_fence_is_taken_out_and_has_a_runner_and_a_file_name(name: str) -> None:
    """Also of an answer whose fence does not say the language."""
    found = await language(text=f"Here it is:\n\n```\n{PROGRAMS[name]}```\nIt works.\n")

    assert found["code"] == PROGRAMS[name]
    assert found["language"] == name
    assert found["run"] in ("python", "javascript", "bash", "sql")
    assert found["file_name"] in found["command"]


@pytest.mark.parametrize(
    "text", [PROSE, "x", "```\nnever closed", "a: 1\n", '{"cut": [1,', "`" * 5000 + "\n" * 5000]
)
async def test_what_shows_no_language_has_none(text: str) -> None:
    """A guess would start the wrong program."""
    found = await language(text=text, path="notes")

    assert (found["language"], found["by"], found["run"]) == (None, None, None)


async def test_file_of_the_workspace_is_read(tmp_path: Path) -> None:
    """Only its beginning; nothing outside is read."""
    (tmp_path / "run").write_text(PROGRAMS["Python"], encoding="utf-8")

    assert (await language(tmp_path, path="run"))["by"] == "content"
    with pytest.raises(ToolFailed, match="leads out of the workspace"):
        await language(tmp_path, path="../x")
    with pytest.raises(ToolFailed, match="No such file"):
        await language(tmp_path, path="none")
    with pytest.raises(ToolFailed, match="Give `text`"):
        await language(tmp_path)


@pytest.mark.parametrize(
    "piece", ["```\n", "public static (", "select ", "\t", "def a(", "(" * 99 + "=> "]
)
async def test_hostile_text_is_decided_soon(piece: str) -> None:
    """The time is linear in the length, also for a line of a megabyte."""
    before = time.process_time()

    await language(text=piece * (1_000_000 // len(piece)), path="x")

    assert time.process_time() - before < 5
