"""Where a memory cgroup is made, on folders laid out as cgroups(7) and the kernel's pages say.

That a real one holds a program is shown in tests/integration/sandbox, on machines that have one.
"""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from hearth.cgroup import make_room
from pipecatapp.sandbox.limits import Limits
from pipecatapp.sandbox.program_group import ProgramGroup, sweep

LIMITS = Limits(memory=1 << 28, processes=10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def own(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "own"
    file.write_text(text, encoding="ascii")
    return file


def version_2(root: Path, place: str, controllers: str) -> Path:
    folder = root / place
    folder.mkdir(parents=True)
    (folder / "cgroup.subtree_control").write_text(controllers, encoding="ascii")
    return folder


def test_group_that_cannot_be_limited_is_not_left_behind(tmp_path: Path, root: Path) -> None:
    """The folder above the own group, as systemd's user sessions have it, but of no kernel."""
    above = version_2(root, "user.slice/app.slice", "cpu memory pids\n")
    version_2(root, "user.slice/app.slice/hearth.service", "\n")
    own_group = own(tmp_path, "0::/user.slice/app.slice/hearth.service\n")

    assert ProgramGroup.make(LIMITS, root, own_group) is None
    assert {path.name for path in above.iterdir()} == {"cgroup.subtree_control", "hearth.service"}


@pytest.mark.parametrize(
    ("place", "controllers"),
    [("a/b", "cpu pids\n"), ("a/b", ""), ("", "")],
)
def test_no_group_is_made_where_none_counts_memory(
    tmp_path: Path, root: Path, place: str, controllers: str
) -> None:
    """A group without a limit would be a promise that nobody keeps; the watch takes over."""
    version_2(root, place, controllers)

    assert ProgramGroup.make(LIMITS, root, own(tmp_path, f"0::/{place}\n")) is None


def test_groups_of_killed_services_are_removed(tmp_path: Path) -> None:
    """Nobody else does; a machine that loses its power each night would collect them."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    for name in (f"hearth-sandbox-{gone.pid}-aa", f"hearth-sandbox-{os.getpid()}-bb", "other"):
        (tmp_path / name).mkdir()

    sweep(tmp_path)

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"hearth-sandbox-{os.getpid()}-bb", "other"}


def test_system_without_cgroups_is_no_failure(tmp_path: Path, root: Path) -> None:
    """Some containers show none at all."""
    assert ProgramGroup.make(LIMITS, root, tmp_path / "none") is None


@pytest.mark.parametrize(
    ("events", "memory", "processes"),
    [
        ("oom 3\noom_kill 1\n", 1, 0),
        ("oom 3\noom_kill 0\n", 0, 0),
        ("", 0, 0),
    ],
)
def test_what_the_kernel_did_is_read(root: Path, events: str, memory: int, processes: int) -> None:
    """`oom` counts what was reclaimed in time; only `oom_kill` ended a process."""
    root.mkdir()
    (root / "memory.events").write_text(events, encoding="ascii")
    (root / "pids.events").write_text("max 0\n", encoding="ascii")

    group = ProgramGroup((root,))

    assert group.ran_out_of_memory() == bool(memory)
    assert group.ran_out_of_processes() == bool(processes)
    (root / "pids.events").write_text("max 2\n", encoding="ascii")
    assert group.ran_out_of_processes()


def test_group_that_is_ours_gets_room_for_limited_children() -> None:
    """A service with a group of its own may limit programs only after it moved aside: the kernel
    allows no limited child beside processes. This is the real kernel, with whatever controller of
    version 2 it has to give.
    """
    mounted = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    files = [place / "cgroup.subtree_control" for place in mounted]
    found = [file for file in files if file.exists() and file.read_text().split()]
    if not found or not os.access(found[0], os.W_OK):
        assert not make_room(Path("/sys/fs/cgroup"), {"memory", "pids"})
        return
    controllers = {found[0].read_text().split()[0]}
    group = found[0].parent / f"hearth-test-{os.getpid()}"
    group.mkdir()
    try:
        with subprocess.Popen(["sleep", "60"]) as service:
            (group / "cgroup.procs").write_text(str(service.pid))

            assert make_room(group, controllers)

            assert (group / "hearth-service" / "cgroup.procs").read_text() == f"{service.pid}\n"
            assert set((group / "cgroup.subtree_control").read_text().split()) == controllers
            service.kill()
    finally:
        for folder in (group / "hearth-service", group):
            with contextlib.suppress(OSError):
                folder.rmdir()
    assert not group.exists()


def test_program_has_a_share_of_the_processor_below_that_of_a_service() -> None:
    """Sixteen busy programs must not take as much of the processor as sixteen services: the kernel
    gives each group its share, however many processes it has."""
    group = ProgramGroup.make(LIMITS)
    if group is None:
        return
    try:
        files = [folder / name for folder in group.folders for name in ("cpu.weight", "cpu.shares")]
        shares = {file.name: file.read_text().strip() for file in files if file.exists()}
        assert shares in ({"cpu.weight": "25"}, {"cpu.shares": "256"})
    finally:
        group.remove()
