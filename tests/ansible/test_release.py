"""What is shipped to machines is our own code, named by its content."""

import shutil
import tarfile
from pathlib import Path

import pytest

from hearth.release.errors import CommandFailed
from hearth.release.wheelhouse import CATALOGUE, LOCK, PACKAGES, build, stamp
from tests.ansible import tree


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what goes into a release, with a lock that needs no index."""
    root = tmp_path / "checkout"
    for package in PACKAGES:
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(tree.ROOT / package, root / package, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE", CATALOGUE, LOCK):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree.ROOT / name, root / name)
    (root / LOCK).write_text("")
    return root


def test_version_follows_the_content(checkout: Path) -> None:
    """Two machines with one version have the same files; a changed file is another version."""
    before = stamp(checkout)
    again = stamp(checkout)
    (checkout / "moe_gateway" / "app.py").write_text("changed = True\n")

    assert before == again
    assert stamp(checkout) != before
    assert before.startswith("0.")


def test_archive_holds_our_wheel_pinned_by_its_sum(checkout: Path, tmp_path: Path) -> None:
    """A machine installs nothing that was not checked."""
    archive = build(checkout, tmp_path / "out", arch="x86_64", python="3.11")

    with tarfile.open(archive) as tar:
        names = tar.getnames()
        requirements = tar.extractfile("requirements.txt")
        assert requirements is not None
        text = requirements.read().decode()
    assert any(name.startswith("hearth-") and name.endswith(".whl") for name in names)
    assert "hearth==" in text
    assert "--hash=sha256:" in text
    assert build(checkout, tmp_path / "out", arch="x86_64", python="3.11") == archive


def test_wheel_that_cannot_be_had_is_told(checkout: Path, tmp_path: Path) -> None:
    """The controller says what is missing before any machine is touched."""
    (checkout / LOCK).write_text(f"no-such-thing==1 --hash=sha256:{'0' * 64}\n")

    with pytest.raises(CommandFailed, match="pip download"):
        build(checkout, tmp_path / "out", arch="x86_64", python="3.11")


def test_controller_keeps_two_releases_and_their_wheels(checkout: Path, tmp_path: Path) -> None:
    """A controller that is updated every week must not fill its disk with what nobody installs."""
    for lock in ("# first", "# second", "# third"):
        (checkout / LOCK).write_text(lock)
        build(checkout, tmp_path / "out", arch="x86_64", python="3.11")

    assert len(list((tmp_path / "out").glob("hearth-*.tar"))) == 2
    assert len(list((tmp_path / "out").glob("wheels-*"))) == 2
