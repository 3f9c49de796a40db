"""The role `llama_cpp` fetches, compiles once and shares: a small project, two machines here."""

import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.expert import build_engines

EXTENDED_INPUTS = ["ansible/roles/llama_cpp/*", "ansible/roles/whisper_cpp/*"]
pytestmark = [pytest.mark.engines]

PLAY = [
    {
        "hosts": "cluster",
        "gather_facts": True,
        "gather_subset": ["min"],
        "roles": [{"role": "llama_cpp"}],
    }
]
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(small C)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(answer SHARED answer.c)
foreach(program llama-server ggml-rpc-server)
  add_executable(${program} main.c)
  target_link_libraries(${program} answer)
endforeach()
"""


class Machines:
    """An inventory of two machines, which lie in two folders of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "source.tar.gz"
        source = folder / "llama.cpp-1234"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        (source / "answer.c").write_text("int answer(void) { return 0; }\n")
        (source / "main.c").write_text("int answer(void);\nint main(void) { return answer(); }\n")
        with tarfile.open(self.archive, "w:gz") as packed:
            packed.add(source, source.name)
        self.variables: dict[str, Any] = {
            "sources": {"llama.cpp": self.source("http://127.0.0.1:9/source.tar.gz")},
            "llama_cpp_archive": str(self.archive),
            "llama_cpp_packages": [],
            "llama_cpp_runtime_packages": [],
            "llama_cpp_poll_seconds": 1,
            "hearth_checkout": str(folder / "controller"),
        }
        (folder / "play.json").write_text(json.dumps(PLAY))

    def source(self, url: str) -> dict[str, str]:
        """An entry of group_vars/all/sources.yaml: what is compiled, pinned by its sum."""
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        return {"version": "b1234", "ref": "1234abcd" * 5, "url": url, "sha256": digest}

    @contextmanager
    def published(self) -> Iterator[str]:
        """The address of the archive on a web server, as its project publishes it."""
        serve = partial(http.server.SimpleHTTPRequestHandler, directory=str(self.folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/{self.archive.name}"
            finally:
                server.shutdown()
                thread.join()

    def root(self, machine: str) -> Path:
        return self.folder / machine / "llama.cpp"

    def current(self, machine: str) -> str:
        """The name of the result that the machine uses."""
        return (self.root(machine) / "current").resolve().name

    def play(
        self, *options: str, fails: bool = False, disk_kb: int | str = "unlimited", **variables: Any
    ) -> "Outcome":
        """Run the role on both machines. `disk_kb`: no file can become larger."""
        hosts = {
            name: {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "hearth_root": str(self.folder / name),
                "llama_cpp_work": str(self.folder / name / "work"),
            }
            for name in ("one", "two")
        }
        inventory = {"cluster": {"hosts": hosts, "vars": {**self.variables, **variables}}}
        (self.folder / "hosts.json").write_text(json.dumps(inventory))
        tools = build_engines.PYTHON.parent
        ended = subprocess.run(
            [
                "bash", "-c", 'ulimit -f "$0" && exec "$@"', str(disk_kb),
                Path(sys.executable).parent / "ansible-playbook",
                "-i", self.folder / "hosts.json", self.folder / "play.json", *options,
            ],
            cwd=build_engines.REPOSITORY, capture_output=True, text=True, check=False,
            env={
                **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1",
                "ANSIBLE_STDOUT_CALLBACK": "default",
                # Ansible writes into $HOME and reads in the home of the user, which may differ.
                "ANSIBLE_ASYNC_DIR": str(self.folder / "async"),
            },
        )  # fmt: skip
        return Outcome(ended, fails=fails)


class Outcome:
    """What ansible-playbook said."""

    def __init__(self, ended: subprocess.CompletedProcess[str], *, fails: bool) -> None:
        self.output = ended.stdout + ended.stderr
        assert (ended.returncode != 0) == fails, self.output

    @property
    def changed(self) -> list[int]:
        return [int(number) for number in re.findall(r"changed=(\d+)", self.output)]

    def did(self, task: str) -> list[str]:
        """The machines on which the task changed something."""
        part = self.output.partition(f"TASK [llama_cpp : {task}]")[2].partition("TASK [")[0]
        return re.findall(r"changed: \[(\w+)", part)


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    if not build_engines.built():
        pytest.skip("cmake and ninja are not here: make test-engines")
    if os.geteuid() != 0:
        pytest.skip("roles act as root")
    return Machines(tmp_path)


@pytest.mark.extended
@pytest.mark.proves("004-11", "004-26")
def test_one_builder_compiles_and_the_others_copy(machines: Machines) -> None:
    """Ten machines need not each spend an hour on the same result, nor one twice."""
    looked = machines.play("--check")
    assert not machines.root("one").exists()
    assert looked.did("Report the build that check mode skips") == ["one"]

    # The source comes from where its project publishes it, as it does at home.
    with machines.published() as url:
        source = {"llama.cpp": machines.source(url)}
        first = machines.play(llama_cpp_archive="", sources=source)
    assert first.did("Download the source archive of llama.cpp") == ["one"]
    assert first.did("Compile the source of llama.cpp") == ["one"]
    assert first.did("Unpack the program archive") == ["two"]
    for name in ("one", "two"):
        for program in ("llama-server", "ggml-rpc-server"):
            subprocess.run([machines.root(name) / "current" / "bin" / program], check=True)
    assert machines.current("one") == machines.current("two")
    assert not list((machines.folder / "one" / "work").iterdir())

    assert machines.play().changed == [0, 0]

    # A machine that comes later costs a copy, also when the controller is a new one.
    shutil.rmtree(machines.root("two"))
    shutil.rmtree(machines.folder / "controller")
    later = machines.play()
    assert later.did("Compile the source of llama.cpp") == []
    assert later.did("Unpack the program archive") == ["two"]


@pytest.mark.extended
def test_source_that_is_not_the_pinned_one_is_refused(machines: Machines) -> None:
    """A machine at home compiles what was looked at, not what the network has made of it."""
    with machines.published() as url:
        wrong = {"llama.cpp": machines.source(url) | {"sha256": "0" * 64}}
        refused = machines.play(fails=True, llama_cpp_archive="", sources=wrong)

    assert "checksum" in refused.output
    assert refused.did("Unpack the source archive") == []
    assert not (machines.root("one") / "current").exists()


@pytest.mark.extended
def test_prebuilt_tree_replaces_compiling_and_the_last_result_is_kept(machines: Machines) -> None:
    """The lab and a home without a compiler get what was compiled elsewhere."""
    tree = machines.folder / "prebuilt"
    (tree / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", tree / "bin" / "llama-server")
    (tree / "stamp").write_text("0" * 64, encoding="ascii")

    taken = machines.play(llama_cpp_prebuilt=str(tree))
    again = machines.play("--check", llama_cpp_prebuilt=str(tree))
    machines.play()
    compiled = machines.current("one")
    (tree / "stamp").write_text("1" * 64, encoding="ascii")
    machines.play(llama_cpp_prebuilt=str(tree))

    assert sorted(taken.did("Unpack the program archive")) == ["one", "two"]
    assert again.changed == [0, 0]
    kept = {folder.name for folder in machines.root("one").iterdir() if not folder.is_symlink()}
    assert kept == {compiled, machines.current("one")} == {compiled, "prebuilt-" + "1" * 16}


@pytest.mark.extended
def test_what_was_cut_short_is_never_taken_for_whole(machines: Machines) -> None:
    """The power fails, or a disk is full, while an archive is packed or unpacked: the next run
    begins that anew. Half an engine would be used for good."""
    tree = machines.folder / "prebuilt"
    (tree / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", tree / "bin" / "llama-server")
    (tree / "bin" / "random.so").write_bytes(os.urandom(3_000_000))
    (tree / "bin" / "zeros.so").write_bytes(bytes(9_000_000))
    (tree / "stamp").write_text("0" * 64, encoding="ascii")

    half_packed = machines.play(fails=True, disk_kb=2_000, llama_cpp_prebuilt=str(tree))
    half_unpacked = machines.play(fails=True, disk_kb=5_000, llama_cpp_prebuilt=str(tree))
    machines.play(llama_cpp_prebuilt=str(tree))

    assert "Rename the packed archive to the final name" not in half_packed.output
    assert half_unpacked.did("Rename the packed archive to the final name") == ["one"]
    assert half_unpacked.did("Unpack the program archive") == []
    for name in ("one", "two"):
        current = machines.root(name) / "current"
        assert (current / "complete").exists()
        for file in ("random.so", "zeros.so"):
            kept, made = current / "bin" / file, tree / "bin" / file
            assert kept.read_bytes() == made.read_bytes()
