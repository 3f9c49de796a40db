"""A run's folder: kept, wound back, forked and joined, and never a way to the host."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipecatapp.workflow import ToolFailed
from pipecatapp.workspace import GitWorkspaces, GitWorktree

Open = Callable[..., GitWorkspaces]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspaces"


@pytest.fixture
def workspaces(root: Path) -> GitWorkspaces:
    return GitWorkspaces(root)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A person's project with two commits."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in (1, 2):
        (folder / "a.txt").write_text(f"{number}\nx\ny\nz\nend\n", encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"commit {number}")
    return folder


def git(folder: Path, *words: str) -> str:
    """git as a person calls it, with everything that a repository may set."""
    named = ["git", "-c", "user.name=P", "-c", "user.email=p@localhost", *words]
    ended = subprocess.run(named, cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def content(folder: Path) -> dict[str, str]:
    """Every file below with its mode and content, links with what they say."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}"
        if path.is_symlink()
        else f"{path.stat().st_mode & 0o111:o} {path.read_bytes()!r}"
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def dig(folder: Path) -> None:
    """1,800 folders inside each other."""
    step = "mkdir -p $(printf 'd/%.0s' $(seq 60)); cd $(printf 'd/%.0s' $(seq 60));"
    subprocess.run(["sh", "-c", step * 30], cwd=folder, check=True)


def write(worktree: GitWorktree, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = worktree.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")


async def test_every_state_can_be_brought_back_byte_by_byte(workspaces: GitWorkspaces) -> None:
    """A resumed run repeats a node on exactly the files that the node began with."""
    worktree = await workspaces.open("r1", None)
    write(worktree, {"a.txt": "a\r\nb\n", ".gitattributes": "* text eol=crlf ident filter=evil\n"})
    write(worktree, {"sub/run.sh": "$Id$\n", ".gitignore": "*.o\n", "x.o": "built", "git~1": "1"})
    (worktree.folder / "sub" / "run.sh").chmod(0o755)
    (worktree.folder / "link").symlink_to("/etc/passwd")
    (worktree.folder / "bytes\udcff\n").write_bytes(bytes(range(256)))
    first, before = await worktree.commit("first"), content(worktree.folder)

    write(worktree, {"sub/run.sh": "changed", "more/new.txt": "new"})
    (worktree.folder / "a.txt").unlink()
    (worktree.folder / "link").unlink()
    (worktree.folder / "link").mkdir()
    write(worktree, {"link/inside": "x"})
    second, after = await worktree.commit("second"), content(worktree.folder)

    await worktree.reset(first)
    assert content(worktree.folder) == before
    await worktree.reset(second)
    assert content(worktree.folder) == after
    assert before != after


async def test_equal_content_has_an_equal_hash_and_no_second_state(
    workspaces: GitWorkspaces,
) -> None:
    """A loop that comes back to where it was is stuck; the hash shows it."""
    worktree = await workspaces.open("r1", None)
    write(worktree, {"a": "1"})
    first, tree = await worktree.commit("first"), await worktree.tree()

    write(worktree, {"a": "2"})
    other = await worktree.tree()
    write(worktree, {"a": "1"})

    assert other != tree
    assert await worktree.tree() == tree
    assert await worktree.commit("again") == first == await worktree.head()


async def test_workspace_is_found_again_as_it_was_left(root: Path, source: Path) -> None:
    """The service was killed; what a node had half done is there until it is reset."""
    before = await GitWorkspaces(root).open("r1", source)
    write(before, {"b": "kept"})
    kept = await before.commit("kept")
    write(before, {"c": "half"})

    again = await GitWorkspaces(root).open("r1", source)
    assert content(again.folder).keys() == {"a.txt", "b", "c"}
    await again.reset(kept)
    assert content(again.folder).keys() == {"a.txt", "b"}
    write(again, {"d": "1"})
    assert await again.commit("next") != kept
    states = git(root / "r1" / "git", "for-each-ref", "--format=%(refname)", "refs/hearth/r1/00*")
    assert states.splitlines() == [f"refs/hearth/r1/00000{number}" for number in range(3)]


async def test_what_came_after_a_reset_stays_kept(workspaces: GitWorkspaces) -> None:
    """Winding back is for looking and for going another way, not for forgetting."""
    worktree = await workspaces.open("r1", None)
    first = await worktree.head()
    write(worktree, {"a": "1"})
    second = await worktree.commit("second")

    await worktree.reset(first)
    write(worktree, {"b": "1"})
    await worktree.commit("another way")
    await worktree.reset(second)

    assert content(worktree.folder).keys() == {"a"}


async def test_workspace_begins_with_the_commit_that_was_named(
    workspaces: GitWorkspaces, source: Path
) -> None:
    """A run says what it started from, and the person's own folder is not touched."""
    (source / "uncommitted").write_text("mine", encoding="utf-8")

    newest = await workspaces.open("r1", source)
    older = await workspaces.open("r2", source, "HEAD~1")
    write(newest, {"a.txt": "of the run"})
    await newest.commit("changed")

    assert (older.folder / "a.txt").read_text(encoding="utf-8").startswith("1\n")
    assert content(newest.folder).keys() == {"a.txt"}
    assert (source / "a.txt").read_text(encoding="utf-8").startswith("2\n")
    assert await newest.diff(git(source, "rev-parse", "HEAD"), await newest.head()) != ""


@pytest.mark.parametrize(
    ("place", "start", "said"),
    [("none", None, "no repository at"), ("project", "v9", "has no commit 'v9'")],
)
async def test_workspace_of_nothing_is_refused(
    workspaces: GitWorkspaces, source: Path, root: Path, place: str, start: str | None, said: str
) -> None:
    """A run on the wrong commit would be worse than none; nothing half made is left."""
    with pytest.raises(ToolFailed, match=said):
        await workspaces.open("r1", source.parent / place, start)

    assert names(root) == set()


@pytest.mark.parametrize("name", ["../x", ".", "", "a/b", "-x"])
async def test_name_that_is_a_path_is_refused(workspaces: GitWorkspaces, name: str) -> None:
    """A run's id becomes a folder; pruning it removes that folder."""
    with pytest.raises(ToolFailed, match="cannot be the name"):
        await workspaces.open(name, None)
    with pytest.raises(ToolFailed, match="cannot be the name"):
        await workspaces.prune(name)


async def test_forks_are_joined(workspaces: GitWorkspaces, source: Path) -> None:
    """Parallel branches each have a folder of their own and end in one."""
    worktree = await workspaces.open("r1", source)
    one, two = await worktree.fork("one"), await worktree.fork("two")
    assert isinstance(one, GitWorktree)
    assert isinstance(two, GitWorktree)
    write(one, {"a.txt": "one\nx\ny\nz\nend\n"})
    write(two, {"a.txt": "2\nx\ny\nz\ntwo\n", "new": "2"})
    await one.commit("one")
    await two.commit("two")

    state = await worktree.merge([one, two])

    assert (worktree.folder / "a.txt").read_text(encoding="utf-8") == "one\nx\ny\nz\ntwo\n"
    assert await worktree.head() == state
    assert not one.folder.exists()


@pytest.mark.parametrize("name", ["each[2]/patch", "main", "../..", "", "plain", "ä" * 300])
async def test_fork_is_found_again_under_any_name(root: Path, source: Path, name: str) -> None:
    """Forks are named for the place in the run that they belong to, and survive a restart."""
    fork = await (await GitWorkspaces(root).open("r1", source)).fork(name)
    (fork.folder / "half").write_text("done", encoding="utf-8")

    main = await GitWorkspaces(root).open("r1", source)
    again = await main.fork(name)
    other = await main.fork(f"{name}.")

    assert again.folder == fork.folder
    assert again.folder.parent == main.folder.parent == other.folder.parent
    assert len({again.folder, main.folder, other.folder}) == 3
    assert names(again.folder) == {"a.txt", "half"}
    assert names(main.folder) == names(other.folder) == {"a.txt"}


async def test_conflict_is_told_with_its_files_and_changes_nothing(
    workspaces: GitWorkspaces, source: Path
) -> None:
    """Markers of a conflict in a file would be read by the next node as its content."""
    worktree = await workspaces.open("r1", source)
    forks = [await worktree.fork(name) for name in ("one", "two")]
    for fork in forks:
        assert isinstance(fork, GitWorktree)
        write(fork, {"a.txt": f"{fork.name}\nx\ny\nz\nend\n", fork.name: "own"})
        await fork.commit(fork.name)
    before, head = content(worktree.folder), await worktree.head()

    with pytest.raises(ToolFailed, match=r"a\.txt"):
        await worktree.merge(forks)

    assert (content(worktree.folder), await worktree.head()) == (before, head)
    assert forks[0].folder.exists()


async def test_pruned_workspace_leaves_nothing(workspaces: GitWorkspaces, root: Path) -> None:
    """Retention ends a run's files, too."""
    await workspaces.open("r1", None)

    await workspaces.prune("r1")

    assert names(root) == set()


async def test_result_is_delivered_as_one_commit_for_review(
    workspaces: GitWorkspaces, source: Path
) -> None:
    """A person reviews a branch of the own project, without what was only built on the way."""
    write_in = await workspaces.open("r1", source)
    write(write_in, {".gitignore": "*.o\n", "x.o": "built", "b.txt": "step 1"})
    await write_in.commit("step 1")
    write(write_in, {"b.txt": "done"})
    await write_in.commit("step 2")

    commit = await write_in.deliver("Add b")

    assert git(source, "log", "--format=%s", "run/r1").splitlines()[:2] == ["Add b", "commit 2"]
    assert git(source, "rev-parse", "run/r1") == commit
    changed = git(source, "diff", "--name-only", "main", "run/r1").splitlines()
    assert changed == [".gitignore", "b.txt"]
    assert git(source, "status", "--porcelain") == ""


async def test_folder_that_is_too_deep_fails_the_node_and_can_be_reset(
    workspaces: GitWorkspaces,
) -> None:
    """No path of the host is long enough for it, and still it must go away."""
    worktree = await workspaces.open("r1", None)
    first = await worktree.head()
    dig(worktree.folder)

    with pytest.raises(ToolFailed, match="too deep"):
        await worktree.commit("deep")
    await worktree.reset(first)

    assert names(worktree.folder) == set()
