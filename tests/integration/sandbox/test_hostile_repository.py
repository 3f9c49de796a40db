"""A repository made to attack whoever works on it, and a program that turns its folder into one."""

import subprocess
from pathlib import Path

import pytest

from pipecatapp.sandbox import Limits, Sandbox
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.sandbox.tree import NotPlain, open_plain
from pipecatapp.workspace import GitWorkspaces

HOOKS = (
    "post-checkout", "post-commit", "pre-commit", "reference-transaction", "post-index-change",
    "post-merge", "pre-push", "pre-receive", "update", "post-receive", "post-update", "pre-auto-gc",
)  # fmt: skip
CONFIG = """
[core]
	fsmonitor = TRAP
	sshCommand = TRAP
	editor = TRAP
	pager = TRAP
[diff]
	external = TRAP
[filter "evil"]
	clean = TRAP
	smudge = TRAP
[diff "evil"]
	textconv = TRAP
[merge "evil"]
	driver = TRAP
[gc]
	auto = 1
[uploadpack]
	packObjectsHook = TRAP
"""
PLANT = """
import os, pathlib, subprocess
def plant(folder):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    (folder / "a.txt").write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=folder, check=True)
    (folder / "a.txt").write_text("changed")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\\n")
    module = "[submodule 'x']\\n\\tpath = x\\n\\turl = ext::TRAP\\n\\tupdate = !TRAP\\n"
    (folder / ".gitmodules").write_text(module.replace("'", '"').replace("TRAP", TRAP))
    with (folder / ".git" / "config").open("a") as config:
        config.write(CONFIG)
    for name in HOOKS:
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\\n" + TRAP + "\\n")
        hook.chmod(0o755)
"""
ATTACKS = {
    "output": "while True: print('x' * 65536)",
    "processes": "import os\nwhile True: os.fork()",
    "disk": "i = 0\nwhile True: i += 1; open(str(i), 'wb').write(bytes(1 << 22))",
}


@pytest.fixture
def sprung(tmp_path: Path) -> Path:
    """The file that exists when one of the planted commands was run on the host."""
    return tmp_path / "sprung"


@pytest.fixture
def planting(sprung: Path) -> str:
    """Python that makes a folder into a trap: `plant(folder)`."""
    trap = f"touch {sprung}"
    config = CONFIG.replace("TRAP", trap)
    return f"TRAP, CONFIG, HOOKS = {trap!r}, {config!r}, {HOOKS!r}\n{PLANT}"


@pytest.fixture
def hostile(tmp_path: Path, planting: str) -> Path:
    """A project whose git directory and files are traps, such as one from an archive."""
    folder = tmp_path / "project"
    code = f"{planting}\nplant(pathlib.Path({str(folder)!r}))"
    subprocess.run([python(), "-c", code], check=True)
    return folder


def plain_git(folder: Path, *words: str) -> None:
    """What a careless host would do."""
    subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_traps_are_real(hostile: Path, sprung: Path) -> None:
    """The tests below show nothing unless plain git runs what was planted."""
    plain_git(hostile, "status")

    assert sprung.exists()


async def test_hostile_source_runs_nothing_on_the_host(hostile: Path, tmp_path: Path) -> None:
    """Working on somebody's repository must not be a way for its author to run commands here."""
    worktree = await GitWorkspaces(tmp_path / "workspaces").open("r1", hostile)
    fork = await worktree.fork("fork")
    for place in (fork, worktree):
        (place.folder / place.folder.name).write_text("x", encoding="utf-8")
        await place.commit("x")
    await worktree.merge([fork])
    await worktree.diff(await worktree.head(), await worktree.head())
    await worktree.deliver("for review")

    assert "sprung" not in names(tmp_path)


async def test_traps_planted_by_a_program_are_never_sprung_by_the_host(
    planting: str, tmp_path: Path
) -> None:
    """A program that a model wrote may fill its folder with repositories; we commit that folder."""
    worktree = await GitWorkspaces(tmp_path / "workspaces").open("r1", None)
    first = await worktree.head()
    code = (
        f"{planting}\nplant(pathlib.Path('/work'))\nplant(pathlib.Path('/work/sub/deep'))\n"
        "os.rename('/work/sub/deep/.git', '/work/sub/deep/.GIT')\n"
        "plant(pathlib.Path('/work/two'))\n"
        "pathlib.Path('/work/three').mkdir()\n"
        "pathlib.Path('/work/three/.git').write_text('gitdir: /work/.git')"
    )
    ended = await Sandbox().run([python(), "-c", code], worktree.folder)
    assert ended.exit_code == 0, ended.stderr.text

    second = await worktree.commit("planted")
    fork = await worktree.fork("fork")
    await fork.commit("again")
    await worktree.diff(first, second)
    await worktree.merge([fork])
    await worktree.reset(first)
    await worktree.reset(second)

    assert "sprung" not in names(tmp_path)
    assert ".git" not in names(worktree.folder)
    plain_git(worktree.folder, "status")
    assert "sprung" not in names(tmp_path)


async def test_links_lead_neither_out_nor_in(tmp_path: Path) -> None:
    """A result that is a link to a key, or a folder that became a link, must not be followed."""
    worktree = await GitWorkspaces(tmp_path / "workspaces").open("r1", None)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("sk-secret", encoding="utf-8")
    (worktree.folder / "sub").mkdir()
    (worktree.folder / "sub" / "file").write_text("x", encoding="utf-8")
    first = await worktree.commit("first")
    code = f"""
import os, shutil
shutil.rmtree("sub"); os.symlink({str(outside)!r}, "sub")
os.symlink({str(outside / "key")!r}, "result.json"); os.mkfifo("pipe")
try: os.link({str(outside / "key")!r}, "hard")
except OSError as error: print(error.strerror)
"""
    ended = await Sandbox().run([python(), "-c", code], worktree.folder)
    assert ended.stdout.text == "No such file or directory\n"

    for name in ("result.json", "sub/key", "pipe", "../outside/key", str(outside / "key"), "."):
        with pytest.raises(NotPlain):
            open_plain(worktree.folder, name)
    await worktree.commit("with links")
    await worktree.reset(first)

    assert names(worktree.folder) == {"sub"}
    assert names(worktree.folder / "sub") == {"file"}
    assert names(outside) == {"key"}


@pytest.mark.parametrize("kind", ATTACKS)
async def test_attack_of_the_repository_is_stopped_and_wound_back(
    tmp_path: Path, kind: str
) -> None:
    """Its build script may be a bomb; the run goes on from the state before it."""
    worktree = await GitWorkspaces(tmp_path / "workspaces").open("r1", None)
    (worktree.folder / "build.py").write_text(ATTACKS[kind], encoding="utf-8")
    before = await worktree.commit("before")

    ended = await Sandbox().run(
        [python(), "build.py"], worktree.folder,
        limits=Limits(seconds=20, output=4 << 20, processes=40, disk=32 << 20),
    )  # fmt: skip
    await worktree.reset(before)

    assert ended.stopped == kind
    assert names(worktree.folder) == {"build.py"}
