"""`bootstrap.sh` as a person meets it: a fresh copy, a home of its own, an empty environment."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.rules import tree
from tests.shown import Shown

EXTENDED_INPUTS = [
    "bootstrap.sh",
    "pyproject.toml",
    "requirements/local.lock",
    "requirements/tools.lock",
]
SECONDS = 600.0
KEPT = ("SSL_CERT_FILE", "HTTPS_PROXY", "PIP_INDEX_URL", "PIP_CERT", "PIP_FIND_LINKS")
"""How this machine reaches a package registry is not what these tests are about."""

Ended = subprocess.CompletedProcess[str]


class Clone:
    """A copy of every file that a clone has, in a path with a space."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.venv, self.tools = root / ".venv", root / ".tools" / "uv"
        self.environment: dict[str, str] = {}
        self.wrapper: list[str | Path] = []
        for file in tree.files():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree.ROOT / file, root / file, follow_symlinks=False)

    def bootstrap(self, *arguments: str, script: Path | None = None) -> Ended:
        """Call it from another folder, with an environment of two variables."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        plain = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **kept, **self.environment}
        return subprocess.run(
            [*self.wrapper, script or self.root / "bootstrap.sh", *arguments],
            cwd=self.home, env=plain, capture_output=True, text=True, timeout=SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def stamps(self) -> dict[str, int]:
        """When tools and environment were completed."""
        return {
            folder.name: (folder / "complete").stat().st_mtime_ns
            for folder in (self.tools, self.venv)
        }


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone that was bootstrapped once; the package cache is that of this machine."""
    home = tmp_path_factory.mktemp("home")
    clone = Clone(tmp_path_factory.mktemp("somebody") / "my clone", home)
    ended = clone.bootstrap("--run-local", "--help")
    assert ended.returncode == 0, ended.stderr
    assert "Usage: hearth up" in ended.stdout
    return clone


@pytest.fixture
def bare(tmp_path: Path) -> Clone:
    """A clone in which nothing was made yet."""
    home = tmp_path / "home"
    home.mkdir()
    return Clone(tmp_path / "clone", home)


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], 0), (["-h"], 0), ([], 2), (["--run-locale"], 2)]
)
def test_help_is_shown_when_asked_and_when_misunderstood(
    bare: Clone, arguments: list[str], code: int
) -> None:
    """A typing error must not install half a gigabyte."""
    ended = bare.bootstrap(*arguments)

    assert ended.returncode == code
    assert "--run-local" in (ended.stdout if code == 0 else ended.stderr)
    assert not bare.venv.exists()


def test_second_start_changes_nothing_and_installs_nothing(clone: Clone) -> None:
    """Starting Hearth is an everyday thing; setting it up is not."""
    before = clone.stamps()
    ended = clone.bootstrap("--run-local", "--help")

    assert ended.returncode == 0
    assert ended.stderr == ""
    assert clone.stamps() == before


def test_hearth_is_a_command_after_the_first_start(clone: Clone) -> None:
    """Pages say `hearth status`, and a file of somebody else with that name stays."""
    link = clone.home / ".local/bin/hearth"
    assert link.readlink() == clone.venv / "bin/hearth"

    link.unlink()
    anew = clone.bootstrap("--run-local", "--help")
    link.unlink()
    link.write_text("mine")
    kept = clone.bootstrap("--run-local", "--help")

    assert f"Linked {link} to this checkout" in anew.stderr
    assert f'export PATH="{link.parent}:$PATH"' in anew.stderr
    assert (kept.returncode, kept.stderr, link.read_text()) == (0, "", "mine")


@pytest.mark.proves("004-33")
def test_options_and_exit_code_of_hearth_up_pass_through(clone: Clone) -> None:
    """Whoever knows `hearth up` knows `--run-local`."""
    refused = clone.bootstrap("--run-local", "--port-base", "80")
    unusable = clone.bootstrap("--run-local", "--state-dir", "/dev/null")

    assert refused.returncode == 2
    assert "--port-base" in refused.stderr
    assert unusable.returncode == 1
    assert "The state directory /dev/null cannot be used" in unusable.stderr


def test_call_through_a_link_finds_the_checkout(clone: Clone) -> None:
    """A link in ~/bin is how people shorten a path."""
    link = clone.home / "hearth-here"
    link.unlink(missing_ok=True)
    link.symlink_to(clone.root / "bootstrap.sh")

    assert clone.bootstrap("--run-local", "--help", script=link).returncode == 0


@pytest.mark.extended
def test_umask_of_the_user_does_not_matter(clone: Clone) -> None:
    """A careful umask must not give an environment that the next user cannot read."""
    (clone.venv / "complete").unlink()
    clone.wrapper = ["sh", "-c", 'umask 0077; exec "$@"', "sh"]
    try:
        ended = clone.bootstrap("--run-local", "--help")
    finally:
        clone.wrapper = []

    assert ended.returncode == 0, ended.stderr
    assert (clone.venv / "bin").stat().st_mode & 0o777 == 0o755


@pytest.mark.extended
def test_deleted_interpreter_is_noticed_and_made_anew(clone: Clone) -> None:
    """An upgrade of the system's Python takes the interpreter of every environment away."""
    (clone.venv / "bin" / "python").unlink()
    ended = clone.bootstrap("--run-local", "--help")

    assert ended.returncode == 0, ended.stderr
    assert "Usage: hearth up" in ended.stdout


@pytest.mark.extended
def test_setup_that_was_killed_is_done_again_from_the_start(clone: Clone) -> None:
    """Half a package would fail later, with an error that leads nowhere."""
    (clone.venv / "complete").unlink()
    (package,) = clone.venv.glob("lib/python3*/site-packages/typer")
    shutil.rmtree(package)
    ended = clone.bootstrap("--run-local", "--help")

    assert ended.returncode == 0, ended.stderr
    assert package.is_dir()


@pytest.mark.extended
def test_environment_of_the_tests_serves_running_too(clone: Clone, shown: Shown) -> None:
    """Whoever develops does both in turn; neither may tear down what the other needs."""
    program, *arguments = shown.take("README.md").split()
    assert program == "./bootstrap.sh"
    tested = clone.bootstrap(*arguments, "--version")
    before = clone.stamps()
    ran = clone.bootstrap("--run-local", "--help")

    assert tested.returncode == 0, tested.stderr
    assert "pytest" in tested.stdout + tested.stderr
    assert ran.returncode == 0
    assert clone.stamps() == before
    assert (clone.venv / "complete").read_text(encoding="ascii").startswith("dev ")


@pytest.mark.extended
def test_home_that_cannot_be_written_does_not_matter(clone: Clone) -> None:
    """Service users and containers often have none."""
    (clone.venv / "complete").unlink()
    clone.environment = {"HOME": "/proc/nothing", "XDG_CACHE_HOME": ""}
    try:
        ended = clone.bootstrap("--run-local", "--help")
    finally:
        clone.environment = {}

    assert ended.returncode == 0, ended.stderr
    assert (clone.root / ".cache" / "uv").is_dir()


@pytest.mark.extended
def test_missing_network_is_told_in_one_sentence(bare: Clone) -> None:
    """The page of errors of an installer says everything but what to do."""
    flags = "-n" if os.geteuid() == 0 else "-Urn"
    if subprocess.run(["unshare", flags, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the kernel gives this user no namespaces")
    bare.wrapper = ["unshare", flags]
    bare.environment = {"PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
    ended = bare.bootstrap("--run-local")

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("No package registry can be reached: check")
    assert "Traceback" not in ended.stderr


def test_python_that_is_too_old_is_told_with_its_version(bare: Clone, tmp_path: Path) -> None:
    """Debian 11 has 3.9: the person must learn that it is the version, not Hearth."""
    bare.environment = {"PATH": f"{_programs(tmp_path, python3=OLD_PYTHON)}"}
    ended = bare.bootstrap("--run-local")

    assert ended.returncode == 1
    assert ended.stderr == (
        "Hearth needs Python 3.11 or newer and this machine has 3.9.2: "
        "install a newer one, then run this again.\n"
    )


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user can write, unlike pytest's own."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take a part of Python away")
def test_plain_user_is_told_which_package_only_root_can_install(open_to_all: Path) -> None:
    """Debian keeps a part of Python in a package of its own; the person can do nothing else."""
    clone = Clone(open_to_all / "clone", open_to_all)
    clone.root.chmod(0o777)
    hide = f'test ! -e {VENV_PACKAGE} || mount -t tmpfs none {VENV_PACKAGE}; exec "$@"'
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    clone.wrapper = ["unshare", "-m", "sh", "-ec", hide, "sh", *nobody]
    ended = clone.bootstrap("--run-local")

    assert ended.returncode == 1
    assert ended.stderr == (
        "Hearth needs Debian's python3-venv, which only root can install: "
        "run `apt-get install python3-venv` as root, then this again.\n"
    )
    assert not clone.venv.exists()


VENV_PACKAGE = "/usr/lib/python3.11/ensurepip"
"""What Debian's package python3-venv brings."""

OLD_PYTHON = """case "$2" in *version_info*) ;; *) echo 3.9.2 ;; esac"""


def _programs(folder: Path, **programs: str) -> Path:
    """A PATH of the few programs that a minimal system has, some of them as given."""
    path = folder / "bin"
    path.mkdir()
    for name in ("sh", "dirname", "basename", "readlink", "cat", "sha256sum", "cut", "mkdir", "id",
                 "flock", "rm", "grep"):  # fmt: skip
        (path / name).symlink_to(f"/usr/bin/{name}")
    for name, script in programs.items():
        (path / name).unlink(missing_ok=True)
        (path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        (path / name).chmod(0o755)
    return path
