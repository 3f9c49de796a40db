"""What is shipped to machines is our own code, named by its content."""

import hashlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hearth.release.environment import CATALOGUE, LOCKS, MADE, PACKAGES, build, stamp
from hearth.release.errors import CommandFailed
from tests.ansible import tree
from tests.support.archives import unpack

EXTENDED_INPUTS = [
    "ansible/roles/hearth_release/**", "hearth/release/**", "tests/ansible/release.yaml",
]  # fmt: skip
INSTALL = Path(__file__).with_name("release.yaml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Something of each package that goes into a release, with locks that need no index."""
    root = tmp_path / "checkout"
    for package in PACKAGES:
        (root / package).mkdir(parents=True)
        for file in (tree.ROOT / package).glob("*.py"):
            shutil.copy(file, root / package)
    for name in ("pyproject.toml", "README.md", "LICENSE", CATALOGUE):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree.ROOT / name, root / name)
    (root / "requirements").mkdir()
    for lock in LOCKS.values():
        (root / lock).write_text("")
    return root


def test_version_follows_the_content(checkout: Path) -> None:
    """Two machines with one version have the same files; a changed file is another version."""
    before = stamp(checkout)
    again = stamp(checkout)
    (checkout / "moe_gateway" / "app.py").write_text("changed = True\n")

    assert before == again
    assert stamp(checkout) != before
    assert before.startswith("0.")


def test_same_checkout_gives_the_same_bytes(checkout: Path, tmp_path: Path) -> None:
    """Two controllers ship one thing, and what a machine unpacked can be compared to it."""
    sums = [
        [
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in build(
                checkout, tmp_path / folder, arch="x86_64", python="3.11", sets=["host"]
            )
        ]
        for folder in ("one", "other")
    ]

    assert sums[0] == sums[1]
    assert len(sums[0]) == 2


def test_what_is_unpacked_runs(checkout: Path, tmp_path: Path) -> None:
    """A machine needs neither pip nor an index, compiles nothing, and keeps it where it wants."""
    *theirs, ours = build(checkout, tmp_path / "out", arch="x86_64", python="3.11", sets=["host"])
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    with tarfile.open(ours) as tar:
        owners = {(member.uid, member.uname, member.mtime) for member in tar}
    unpack(ours, tmp_path / "env")

    imported = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-I", "-c", "import hearth; print(hearth.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    libraries = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    assert [file for file in libraries.rglob("*.py") if not _is_compiled(file)] == []
    assert len(theirs) == len(owners) == 1
    assert imported.stdout.startswith(str(tmp_path / "env"))
    assert (tmp_path / "env" / "bin" / "hearth").stat().st_mode & 0o777 == 0o755


def test_wheel_that_cannot_be_had_is_told(checkout: Path, tmp_path: Path) -> None:
    """The controller says what is missing before any machine is touched."""
    (checkout / LOCKS["host"]).write_text(f"no-such-thing==1 --hash=sha256:{'0' * 64}\n")

    with pytest.raises(CommandFailed, match="pip install"):
        build(checkout, tmp_path / "out", arch="x86_64", python="3.11", sets=["host"])

    assert not list((tmp_path / "out").glob("packages-host-*"))


@pytest.mark.extended
def test_controller_keeps_two_of_each(checkout: Path, tmp_path: Path) -> None:
    """A controller that is updated every week must not fill its disk with what nobody installs."""
    for lock in ("# first", "# second", "# third"):
        (checkout / LOCKS["speech"]).write_text(lock)
        build(checkout, tmp_path / "out", arch="x86_64", python="3.11", sets=["speech"])

    assert len(list((tmp_path / "out").glob("hearth-*"))) == 2
    assert len(list((tmp_path / "out").glob("packages-speech-*"))) == 2


@pytest.mark.extended
@pytest.mark.hosts
def test_machine_unpacks_packages_once_for_all_releases_that_have_them(
    checkout: Path, tmp_path: Path
) -> None:
    """Our own code changes every week, what it needs seldom; and of that nothing is left over."""
    root = tmp_path / "machine"
    skip = shutil.ignore_patterns("__pycache__")  # the play puts its archives together by it
    shutil.copytree(tree.ROOT / "hearth", checkout / "hearth", ignore=skip, dirs_exist_ok=True)

    said = _install(root, checkout, {"1": ["host", "speech"], "2": ["host"], "3": ["host"]})

    assert said.count("Unpack the package archive]") == 2, said
    assert {path.name for path in (root / "versions").iterdir()} == {"2", "3"}
    (left,) = (root / "packages").iterdir()
    assert left.name.startswith("host-")
    python = root / "current" / "venv" / "bin" / "python"
    found = subprocess.run(
        [python, "-P", "-c", "import hearth, sys; print(hearth.__file__, *sys.path)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert Path(found[0]).is_relative_to(root)
    assert any(path.startswith(str(left)) for path in found)


def _is_compiled(file: Path) -> bool:
    """Whether Python takes the bytecode beside it: that knows the time and size of its source."""
    code = Path(importlib.util.cache_from_source(str(file)))
    known = struct.pack("<4sLLL", importlib.util.MAGIC_NUMBER, 0, MADE, file.stat().st_size)
    return code.is_file() and code.read_bytes()[:16] == known and file.stat().st_mtime == MADE


def _install(root: Path, checkout: Path, releases: dict[str, list[str]]) -> str:
    """Versions of it with their sets, one after the other; the tasks that did something."""
    named = [
        {"version": version, "checkout": str(checkout), "sets": sets}
        for version, sets in releases.items()
    ]
    words = ["-e", json.dumps({"releases": named, "releases_root": str(root)})]
    ended = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local",
         *words, INSTALL],
        capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"),
             "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return ended.stdout
