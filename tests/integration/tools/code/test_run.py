"""The tool `code.run` on the real sandbox; attacks are in tests/integration/sandbox."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Sandbox, bubblewrap
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context, ToolFailed

RUN = TOOLS["code.run"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    (tmp_path / "work").mkdir()
    sandbox = Sandbox()
    packages = Packages(tmp_path / "packages", sandbox)
    return Context(workspace=tmp_path / "work", services={Sandbox: sandbox, Packages: packages})


def content(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_server_that_still_runs_after_alive_is_a_success(ctx: Context) -> None:
    """A server or a game does not end by itself; one that fails before is an error as ever."""
    # On a busy machine Python itself takes a second to start.
    serves = "import time\nprint('up', flush=True)\ntime.sleep(60)"
    runs = await RUN.check(ctx, {"code": serves, "alive": 4})
    fails = await RUN.check(ctx, {"code": "1 / 0", "alive": 5})
    ends = await RUN.check(ctx, {"code": "print(1)", "alive": 5})

    assert (runs["ok"], runs["stopped"], runs["stdout"], runs["error"]) == (
        True, "time", "up\n", None,
    )  # fmt: skip
    assert (fails["ok"], fails["error"]["type"]) == (False, "ZeroDivisionError")
    assert (ends["ok"], ends["stopped"]) == (True, None)


@pytest.mark.proves("002-28")
async def test_program_is_run_and_its_end_is_data(ctx: Context) -> None:
    """A workflow decides by exit code, output and changed files; none of them is a failure."""
    assert ctx.workspace is not None
    (ctx.workspace / "old").write_text("1", encoding="utf-8")
    (ctx.workspace / "module.py").write_text("ANSWER = 42", encoding="utf-8")
    code = """
import os, sys, module
print(module.ANSWER, sys.stdin.read(), os.environ["WHO"])
print("wrong", file=sys.stderr)
open("new", "w").write("x"); open("old", "a").write("2")
open(b"bytes\\xff", "w")
sys.exit(3)
"""

    told = await RUN.check(ctx, {"code": code, "stdin": "in", "environment": {"WHO": "me"}})

    seconds = told.pop("seconds")
    assert told == {
        "ok": False, "exit_code": 3, "stopped": None, "stdout": "42 in me\n",
        "stderr": "wrong\n", "stdout_cut": 0, "stderr_cut": 0, "files_left_out": 0,
        "error": {
            "type": "exit", "message": "wrong", "file": None, "line": None, "frames": [],
            "symbol": None, "signature": "exit: wrong",
        },
        "files": [
            {"path": "bytes\ufffd", "change": "added"}, {"path": "new", "change": "added"},
            {"path": "old", "change": "changed"},
        ],
    }  # fmt: skip
    assert 0 < seconds < 60


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({"code": "echo $0; pwd", "language": "sh"}, "/code/main\n/work\n"),
        ({"command": ["echo", "a b", "$HOME"]}, "a b $HOME\n"),
        ({"command": ["python3", "-c", "print(1)"]}, "1\n"),
    ],
)
async def test_program_may_be_shell_or_any_command(
    ctx: Context, given: dict[str, Any], printed: str
) -> None:
    """Arguments are passed as they are: no shell reads them unless one was asked for."""
    told = await RUN.check(ctx, given)

    assert (told["stdout"], told["ok"], told["files"]) == (printed, True, [])


PROGRAMS = {
    "python": "import sys\nprint(sys.stdin.read())\nraise ValueError('no')\n",
    "javascript": "const text = require('fs').readFileSync(0, 'utf8');\nconsole.log(text);\n"
    "throw new RangeError('no');\n",
    "bash": "names=(a)\nfor name in $(cat); do\n  echo $name\ndone\nmissing_program\n",
    "sql": "create table t (a);\ninsert into t values ('in');\nselect a from t;\n"
    "select no from t;\n",
}


@pytest.mark.proves("002-08")
@pytest.mark.parametrize(
    ("language", "type", "line"),
    [
        ("python", "ValueError", 3), ("javascript", "RangeError", 3), ("bash", "exit", 5),
        ("sql", "Parse error", 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [True, False])
async def test_each_language_has_a_runner_and_its_errors_are_read(
    ctx: Context, language: str, type: str, line: int, *, named: bool
) -> None:
    """Also if a model gives the program in a fence without its language."""
    code = PROGRAMS[language]
    given = {"code": code, "language": language} if named else {
        "code": f"So:\n```\n{code}```\n", "language": "auto"
    }  # fmt: skip

    told = await RUN.check(ctx, {**given, "stdin": "in"})

    assert told["stdout"].startswith("in\n"), told
    assert (told["ok"], told["error"]["line"]) == (False, line)
    assert type == "exit" or told["error"]["type"] == type


@pytest.mark.proves("002-09")
async def test_language_that_is_not_identified_or_has_no_runner_is_refused(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prose is not started as a program, and a missing runner is named with its package."""
    with pytest.raises(ToolFailed, match="not identified"):
        await RUN.check(ctx, {"code": "I cannot do that.", "language": "auto"})
    with pytest.raises(ToolFailed, match="is Go: run a `command`"):
        await RUN.check(ctx, {"code": "```go\npackage main\n```", "language": "auto"})
    monkeypatch.setattr("pipecatapp.tools.code.run.PATH", "/none")
    with pytest.raises(ToolFailed, match="node is not installed: run `apt-get install nodejs`"):
        await RUN.check(ctx, {"code": "1", "language": "javascript"})


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"code": "while True: pass", "seconds": 0.5}, "time"),
        ({"code": "h = []\nfor _ in range(4096): h.append(b'x' * (1 << 20))", "memory_mb": 256},
         "memory"),
        ({"code": "import os\nwhile True: os.fork()", "processes": 20}, "processes"),
        ({"code": "for _ in range(1 << 14): print('x' * 65536)"}, "output"),
        ({"code": "i = 0\nwhile True: i += 1; open(str(i), 'wb').write(bytes(1 << 20))",
          "disk_mb": 8}, "disk"),
    ],
)  # fmt: skip
@pytest.mark.proves("001-19")
async def test_each_limit_ends_a_program_with_its_own_word(
    ctx: Context, given: dict[str, Any], kind: str
) -> None:
    """A fork bomb, too much memory, an endless loop and too much output need different mends."""
    told = await RUN.check(ctx, given)

    assert (told["stopped"], told["exit_code"], told["ok"]) == (kind, None, False)


async def test_without_a_workspace_the_folder_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calculation needs no files, and should leave none, whatever it does to its folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ctx = Context(services={Sandbox: Sandbox()})
    deep = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"

    dug = await RUN.check(ctx, {"code": deep})
    first = await RUN.check(ctx, {"code": "open('x', 'w')"})
    second = await RUN.check(ctx, {"code": "import os; print(os.listdir())"})

    assert (first["files"], second["stdout"]) == ([{"path": "x", "change": "added"}], "[]\n")
    assert dug["stopped"] == "disk"
    assert content(tmp_path) == []


async def test_without_bubblewrap_the_tool_says_what_to_do(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is ever run outside of the sandbox instead."""
    assert ctx.workspace is not None
    bubblewrap.find.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolFailed, match="apt-get install bubblewrap"):
        await RUN.check(ctx, {"code": "open('x', 'w')"})

    bubblewrap.find.cache_clear()
    assert content(ctx.workspace) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either `code` or `command`"),
        ({"code": "x", "command": ["x"]}, "either `code` or `command`"),
        ({"code": "x", "packages": "../x"}, "no packages"),
        ({"code": "x", "environment": {"A=B": "x"}}, "cannot be a variable"),
        ({"code": "x", "language": "perl"}, "language"),
        ({"command": ["echo", "a\0b"]}, "cannot be started"),
        ({"command": ["echo", "\ud800"]}, "cannot be started"),
        ({"command": ["echo", "x" * (1 << 20)]}, "cannot be started"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    ctx: Context, given: dict[str, Any], said: str
) -> None:
    """A mistake in a document is told before anything is started."""
    with pytest.raises(ToolFailed, match=said):
        await RUN.check(ctx, given)


async def test_variables_of_a_program_stand_on_no_command_line(ctx: Context) -> None:
    """Every user of a machine can read every command line, and keys are among the variables."""
    assert ctx.workspace is not None
    code = "import os, time\nopen('up', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)"
    given = {"code": code, "environment": {"KEY": "sk-seen-by-nobody"}}

    told, lines = await asyncio.gather(
        RUN.check(ctx, given), asyncio.to_thread(command_lines, ctx.workspace)
    )

    assert told["ok"]
    assert any(b"bwrap" in line for line in lines)
    assert not [line for line in lines if b"sk-seen-by-nobody" in line]


def command_lines(folder: Path) -> list[bytes]:
    """Those of all processes while the program that has said `up` waits for `go`."""
    ends = time.monotonic() + 60
    while not (folder / "up").exists() and time.monotonic() < ends:
        time.sleep(0.01)
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.append((process / "cmdline").read_bytes())
    (folder / "go").touch()
    return lines
