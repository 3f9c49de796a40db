"""Build the engines that are compiled: `python -m tests.integration.expert.build_engines`.

The source distributions of llama-cpp-python and pywhispercpp carry the llama.cpp and whisper.cpp
they belong to. Each tree is compiled once, with the flags of the roles `llama_cpp` and
`whisper_cpp`: `llama-server`, `ggml-rpc-server`, `whisper-server`. The Python package
llama-cpp-python is installed without compiling it again and gets the same libraries. All of it lies
in `.cache/engines`; a second call with the same versions, flags and place does nothing. Lab hosts
get the folders `llama.cpp` and `whisper.cpp` as prebuilt trees. Takes about twelve minutes on two
cores.
"""

import hashlib
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
STAMP = FOLDER / "stamp"

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
    """Whether what lies there was built from this lock file, with these flags, for this place."""
    return STAMP.is_file() and STAMP.read_text(encoding="utf-8") == recipe()


def recipe() -> str:
    """What decides the result of a build, as one SHA-256."""
    parts = [*LLAMA_FLAGS, *LLAMA_TARGETS, *WHISPER_FLAGS, *WHISPER_TARGETS]
    parts += [str(REPOSITORY), platform.machine(), sys.version]
    return hashlib.sha256(LOCK.read_bytes() + "\n".join(parts).encode()).hexdigest()


def build() -> None:
    """Build all of it anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(sys.executable, "-m", "venv", str(FOLDER / "venv"))
    compiled, tools = split_lock(LOCK.read_text(encoding="utf-8"))
    install_tools(tools)
    sources = {name: fetch_source(name, compiled[name]) for name in SOURCES}
    compile_tree(sources["llama-cpp-python"], LLAMA_FLAGS, LLAMA_TARGETS, LLAMA_CPP)
    compile_tree(sources["pywhispercpp"], WHISPER_FLAGS, WHISPER_TARGETS, WHISPER_CPP)
    install_package(sources["llama-cpp-python"].parents[1], libraries_of(LLAMA_CPP))
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(REPOSITORY))
    shutil.rmtree(FOLDER / "work")
    STAMP.write_text(recipe(), encoding="utf-8")


def split_lock(lock: str) -> tuple[dict[str, str], str]:
    """The requirements that are compiled, by name, and all others, each with its hashes."""
    requirements = re.split(r"\n(?=\S)", lock)
    compiled = {
        name: text for text in requirements for name in SOURCES if text.startswith(f"{name}==")
    }
    return compiled, "\n".join(text for text in requirements if text not in compiled.values())


def install_tools(requirements: str) -> None:
    """Everything that is not compiled: cmake, ninja, the build backends, what the server needs."""
    file = work("tools.txt")
    file.write_text(requirements, encoding="utf-8")
    pip("install", "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(file))


def fetch_source(name: str, requirement: str) -> Path:
    """Download a source distribution and unpack it; the folder of the tree in it."""
    file, place = work(f"{name}.txt"), work(name)
    file.write_text(requirement, encoding="utf-8")
    only_source = ("--no-deps", "--no-build-isolation", f"--no-binary={name}")
    pip("download", "--require-hashes", *only_source, "-d", str(place), "-r", str(file))
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(place / "source", filter="data")
    (folder,) = (place / "source").iterdir()
    return folder / SOURCES[name]


def compile_tree(source: Path, flags: Sequence[str], targets: Sequence[str], place: Path) -> None:
    """Compile a tree; the programs and their libraries, in one folder, with a stamp beside it."""
    tools, tree = PYTHON.parent, work(f"build-{place.name}")
    ninja = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}")
    run(str(tools / "cmake"), "-S", str(source), "-B", str(tree), *ninja, *flags)
    run(str(tools / "cmake"), "--build", str(tree), "--parallel", "2", "--target", *targets)
    shutil.copytree(tree / "bin", place / "bin", symlinks=True)
    for library in tree.glob("**/lib*.so*"):
        if not (place / "bin" / library.name).exists():
            shutil.copy(library, place / "bin", follow_symlinks=False)
    (place / "stamp").write_text(recipe(), encoding="utf-8")


def libraries_of(place: Path) -> list[Path]:
    """The libraries of a compiled tree."""
    return sorted((place / "bin").glob("lib*.so*"))


def install_package(source: Path, libraries: list[Path]) -> None:
    """Install the Python package around the libraries that are there already."""
    without = ("--no-deps", "--no-build-isolation", "-C", "cmake.define.LLAMA_BUILD=OFF")
    pip("install", *without, str(source))
    (package,) = (FOLDER / "venv" / "lib").glob("python3*/site-packages/llama_cpp")
    (package / "lib").mkdir()
    for library in libraries:
        shutil.copy(library, package / "lib", follow_symlinks=False)


def work(name: str) -> Path:
    """A path for what is needed only while building."""
    (FOLDER / "work").mkdir(exist_ok=True)
    return FOLDER / "work" / name


def pip(command: str, *options: str) -> None:
    """Run pip in the environment of the engines."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    run(str(PYTHON), "-m", "pip", command, *quiet, *options)


def run(*command: str) -> None:
    """Run a command, shown with its output; the build ends when it fails."""
    sys.stdout.write(f"$ {' '.join(command)}\n")
    sys.stdout.flush()
    subprocess.run(command, check=True)


def main() -> None:
    """Build what is not built yet, at a low priority: others may be using the machine."""
    if built():
        sys.stdout.write(f"The engines in {FOLDER} are up to date.\n")
        return
    os.nice(10)
    build()


if __name__ == "__main__":
    main()
