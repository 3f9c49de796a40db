"""Build the two engines that are compiled: `python -m tests.integration.expert.build_engines`.

The source distribution of llama-cpp-python carries the llama.cpp it belongs to. That tree is
compiled once, with `llama-server`; the Python package is installed without compiling it again and
gets the same libraries. All of it lies in `.cache/engines`; a second call with the same versions,
flags and place does nothing. Takes about ten minutes on two cores.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
LOCK = REPOSITORY / "requirements" / "engines.lock"
FOLDER = REPOSITORY / ".cache" / "engines"
PYTHON = FOLDER / "venv" / "bin" / "python"
LLAMA_SERVER = FOLDER / "bin" / "llama-server"
STAMP = FOLDER / "stamp"

COMPILED = "llama-cpp-python"
FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN",
    "-DGGML_NATIVE=OFF",  # a kept build may come to another processor
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # it would be downloaded
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
)


def built() -> bool:
    """Whether what lies there was built from this lock file, with these flags, for this place."""
    return STAMP.is_file() and STAMP.read_text(encoding="utf-8") == recipe()


def recipe() -> str:
    """What decides the result of a build, as one SHA-256."""
    parts = [*FLAGS, str(REPOSITORY), platform.machine(), sys.version]
    return hashlib.sha256(LOCK.read_bytes() + "\n".join(parts).encode()).hexdigest()


def build() -> None:
    """Build both engines anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(sys.executable, "-m", "venv", str(FOLDER / "venv"))
    compiled, tools = split_lock(LOCK.read_text(encoding="utf-8"))
    install_tools(tools)
    source = fetch_source(compiled)
    libraries = compile_llama_server(source)
    install_package(source, libraries)
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(REPOSITORY))
    shutil.rmtree(FOLDER / "work")
    STAMP.write_text(recipe(), encoding="utf-8")


def split_lock(lock: str) -> tuple[str, str]:
    """The requirement that is compiled, and all others, each with its hashes."""
    requirements = re.split(r"\n(?=\S)", lock)
    compiled = [text for text in requirements if text.startswith(f"{COMPILED}==")]
    return "\n".join(compiled), "\n".join(text for text in requirements if text not in compiled)


def install_tools(requirements: str) -> None:
    """Everything that is not compiled: cmake, ninja, the build backends, what the server needs."""
    file = work("tools.txt")
    file.write_text(requirements, encoding="utf-8")
    pip("install", "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(file))


def fetch_source(requirement: str) -> Path:
    """Download the source distribution and unpack it; its folder."""
    file = work("compiled.txt")
    file.write_text(requirement, encoding="utf-8")
    only_source = ("--no-deps", "--no-build-isolation", f"--no-binary={COMPILED}")
    pip("download", "--require-hashes", *only_source, "-d", str(work("sdist")), "-r", str(file))
    (archive,) = work("sdist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(work("source"), filter="data")
    (folder,) = work("source").iterdir()
    return folder


def compile_llama_server(source: Path) -> list[Path]:
    """Compile llama.cpp; the program and its libraries, which find each other in one folder."""
    tools, tree = PYTHON.parent, work("build")
    ninja = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}")
    llama_cpp = source / "vendor" / "llama.cpp"
    run(str(tools / "cmake"), "-S", str(llama_cpp), "-B", str(tree), *ninja, *FLAGS)
    run(str(tools / "cmake"), "--build", str(tree), "--target", "llama-server", "--parallel", "2")
    shutil.copytree(tree / "bin", LLAMA_SERVER.parent, symlinks=True)
    return sorted(LLAMA_SERVER.parent.glob("lib*.so*"))


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
