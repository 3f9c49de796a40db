"""Build the engines that are compiled: `python -m tests.integration.expert.build_engines`.

The source distributions of llama-cpp-python and pywhispercpp carry the llama.cpp and whisper.cpp
they belong to. Each tree is compiled once, with the flags of the roles `llama_cpp` and
`whisper_cpp`: `llama-server`, `ggml-rpc-server`, `whisper-server`. The Python package
llama-cpp-python is installed without compiling it again and gets the same libraries. All of it is
one entry of the test cache, named by the versions, the flags and the interpreter; `.cache/engines`
of the checkout links to its parts and holds an environment with this checkout's own code. Lab hosts
get the folders `llama.cpp` and `whisper.cpp` as prebuilt trees. Takes about six minutes on two
cores.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests import cache

REPOSITORY = Path(__file__).parents[3]
LOCK = REPOSITORY / "requirements" / "engines.lock"
ROLES = REPOSITORY / "ansible" / "roles"
FOLDER = REPOSITORY / ".cache" / "engines"
PYTHON = FOLDER / "venv" / "bin" / "python"
LLAMA_CPP = FOLDER / "llama.cpp"
WHISPER_CPP = FOLDER / "whisper.cpp"
LLAMA_SERVER = LLAMA_CPP / "bin" / "llama-server"
RPC_SERVER = LLAMA_CPP / "bin" / "ggml-rpc-server"
WHISPER_SERVER = WHISPER_CPP / "bin" / "whisper-server"
TREES = ("llama.cpp", "whisper.cpp")

SOURCES = {"llama-cpp-python": "vendor/llama.cpp", "pywhispercpp": "whisper.cpp"}
"""Source distribution -> where the tree that is compiled lies in it."""


def role_variables(role: str) -> dict[str, Any]:
    """The fixed variables of a role: flags and targets."""
    text = (ROLES / role / "vars" / "main.yaml").read_text(encoding="utf-8")
    return dict(YAML(typ="safe").load(text))


LLAMA, WHISPER = role_variables("llama_cpp"), role_variables("whisper_cpp")
FLAGS_ALL: list[str] = LLAMA["__llama_cpp_flags_all"] + LLAMA["__llama_cpp_flags_backend"]["cpu"]
LLAMA_FLAGS: list[str] = FLAGS_ALL + LLAMA["__llama_cpp_flags_own"]
LLAMA_TARGETS: list[str] = LLAMA["__llama_cpp_targets"]
WHISPER_FLAGS: list[str] = FLAGS_ALL + WHISPER["__whisper_cpp_flags_own"]
WHISPER_TARGETS: list[str] = WHISPER["__whisper_cpp_targets"]


def built() -> bool:
    """Whether the engines of this lock file and these flags are built and linked here."""
    return WHISPER_CPP.is_symlink() and WHISPER_CPP.readlink().parent.name == _name()


def recipe() -> str:
    """Return the hash of what decides the result of a build."""
    flags = [*LLAMA_FLAGS, *LLAMA_TARGETS, *WHISPER_FLAGS, *WHISPER_TARGETS]
    return cache.key([LOCK, Path(__file__), *flags, platform.machine(), sys.version])


def _name() -> str:
    return f"engines-{cache.key([recipe()])}"


def build() -> None:
    """Build the engines if the test cache does not have them, and link them into the checkout."""
    folder = cache.entry("engines", [recipe()], lambda place: Build(place).run())
    if not built():
        _make_environment(folder)
        for tree in TREES:
            cache.link(FOLDER / tree, folder / tree)


def _make_environment(folder: Path) -> None:
    """Make a small environment here: the packages of the entry, and the code of this checkout."""
    shutil.rmtree(PYTHON.parents[1], ignore_errors=True)
    run(sys.executable, "-m", "venv", "--without-pip", str(PYTHON.parents[1]))
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (own,) = (PYTHON.parents[1] / "lib").glob("python3*/site-packages")
    (own / "engines.pth").write_text(f"{packages}\n", encoding="utf-8")
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--quiet", "--python", str(PYTHON)]
    run(*pip, "install", "--no-deps", "--no-build-isolation", "--editable", str(REPOSITORY))
    for tool in ("cmake", "ninja"):
        (PYTHON.parent / tool).symlink_to(folder / "venv" / "bin" / tool)


def split_lock(lock: str) -> tuple[dict[str, str], str]:
    """The requirements that are compiled, by name, and all others, each with its hashes."""
    requirements = re.split(r"\n(?=\S)", lock)
    compiled = {
        name: text for text in requirements for name in SOURCES if text.startswith(f"{name}==")
    }
    return compiled, "\n".join(text for text in requirements if text not in compiled.values())


class Build:
    """One build into a folder of the test cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tools = folder / "venv" / "bin"

    def run(self) -> None:
        """Compile both trees, then install the Python package around the libraries."""
        run(sys.executable, "-m", "venv", str(self._folder / "venv"))
        compiled, tools = split_lock(LOCK.read_text(encoding="utf-8"))
        self._install_tools(tools)
        llama, whisper = (self._fetch_source(name, compiled[name]) for name in SOURCES)
        self._compile(llama, LLAMA_FLAGS, LLAMA_TARGETS, "llama.cpp")
        self._compile(whisper, WHISPER_FLAGS, WHISPER_TARGETS, "whisper.cpp")
        self._install_package(llama.parents[1])
        shutil.rmtree(self._folder / "work")

    def _install_tools(self, requirements: str) -> None:
        """Install what is not compiled: cmake, ninja, build backends, the server's packages."""
        file = self._work("tools.txt")
        file.write_text(requirements, encoding="utf-8")
        binary = ("--require-hashes", "--no-deps", "--only-binary=:all:")
        self._pip("install", *binary, "-r", str(file))

    def _fetch_source(self, name: str, requirement: str) -> Path:
        """Download a source distribution and unpack it; return the tree to compile."""
        file, place = self._work(f"{name}.txt"), self._work(name)
        file.write_text(requirement, encoding="utf-8")
        only_source = ("--no-deps", "--no-build-isolation", f"--no-binary={name}")
        self._pip("download", "--require-hashes", *only_source, "-d", str(place), "-r", str(file))
        (archive,) = place.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(place / "source", filter="data")
        (folder,) = (place / "source").iterdir()
        return folder / SOURCES[name]

    def _compile(
        self, source: Path, flags: Sequence[str], targets: Sequence[str], name: str
    ) -> None:
        """Compile a tree; keep programs and libraries in one folder, with a stamp beside it."""
        tree, place = self._work(f"build-{name}"), self._folder / name
        ninja = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={self._tools / 'ninja'}")
        cmake = str(self._tools / "cmake")
        run(cmake, "-S", str(source), "-B", str(tree), *ninja, *flags)
        run(cmake, "--build", str(tree), "--parallel", "2", "--target", *targets)
        shutil.copytree(tree / "bin", place / "bin", symlinks=True)
        for library in tree.glob("**/lib*.so*"):
            if not (place / "bin" / library.name).exists():
                shutil.copy(library, place / "bin", follow_symlinks=False)
        (place / "stamp").write_text(recipe(), encoding="utf-8")

    def _install_package(self, source: Path) -> None:
        """Install the Python package around the libraries of the compiled tree."""
        without = ("--no-deps", "--no-build-isolation", "-C", "cmake.define.LLAMA_BUILD=OFF")
        self._pip("install", *without, str(source))
        (package,) = (self._folder / "venv" / "lib").glob("python3*/site-packages/llama_cpp")
        (package / "lib").mkdir()
        for library in sorted((self._folder / "llama.cpp" / "bin").glob("lib*.so*")):
            shutil.copy(library, package / "lib", follow_symlinks=False)

    def _work(self, name: str) -> Path:
        """Return a path for what is needed only while building."""
        (self._folder / "work").mkdir(exist_ok=True)
        return self._folder / "work" / name

    def _pip(self, command: str, *options: str) -> None:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        run(str(self._tools / "python"), "-m", "pip", command, *quiet, *options)


def run(*command: str) -> None:
    """Run a command, shown with its output; the build ends when it fails."""
    sys.stdout.write(f"$ {' '.join(command)}\n")
    sys.stdout.flush()
    subprocess.run(command, check=True)


def main() -> None:
    """Build what is not built yet, at a low priority: others may be using the machine."""
    if not built():
        os.nice(10)
    build()
    sys.stdout.write(f"The engines in {FOLDER} are up to date.\n")


if __name__ == "__main__":
    main()
