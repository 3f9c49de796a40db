"""Importing any module of ours does nothing."""

import os
import subprocess
import sys

import pytest

from tests.rules import tree

PROBE = """
import importlib, sys
import ifaddr  # asks once, when it is imported, where the C library is
import urllib3  # asks once, when it is imported, whether the system has IPv6
seen = []
def watch(event, args):
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        if "__pycache__" not in str(args[0]):
            seen.append(f"writes {args[0]}")
    elif event in ("socket.bind", "socket.connect", "subprocess.Popen", "os.system", "os.mkdir"):
        seen.append(f"{event} {args}")
sys.dont_write_bytecode = True
sys.addaudithook(watch)
for name in sys.argv[1:]:
    importlib.import_module(name)
if seen:
    sys.exit("; ".join(seen))
"""


SERVICES = {
    "llama_expert": ("host",),
    "moe_gateway": ("host",),
    "pipecatapp": ("agent",),
    "power_manager": ("host",),
    "speech": ("host", "speech"),
}
"""The locks of what each finds on a machine of a cluster, or in its image."""

BARE = """
import importlib, re, sys
from importlib.metadata import packages_distributions
from pathlib import Path
_, service, *locks = sys.argv
names = re.findall(r"^([a-z0-9-]+)==", "".join(Path(lock).read_text() for lock in locks), re.M)
def told(name):
    return re.sub(r"[-_.]+", "-", name).lower()
there = {"hearth", *map(told, names)}
absent = {
    module for module, sources in packages_distributions().items()
    if not there & set(map(told, sources)) and module not in sys.stdlib_module_names
}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is in none of {locks}", name=name)
sys.meta_path.insert(0, Absent())
importlib.import_module(f"{service}.__main__")
"""


THEIRS = ("-W", "ignore:'audioop' is:DeprecationWarning", "-W", "ignore:`:DeprecationWarning")
"""What pipecat warns of in itself; it greets in its log, too: in the voice worker (0137)."""


@pytest.mark.parametrize("package", tree.PACKAGES)
def test_import_has_no_output_and_no_side_effect(package: str) -> None:
    """A tool, a test or the command line may import any part without starting it."""
    modules = [
        ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        for file in tree.python(package)
    ]

    ended = subprocess.run(
        [sys.executable, "-W", "error", *THEIRS, "-c", PROBE, *modules],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"LOGURU_AUTOINIT": "0"},
    )  # fmt: skip

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("service", SERVICES)
def test_service_starts_with_what_its_locks_have(service: str) -> None:
    """Here all packages are there; on a machine, a service that needs another's does not start."""
    locks = [f"requirements/{name}.lock" for name in SERVICES[service]]

    ended = subprocess.run(
        [sys.executable, "-c", BARE, service, *locks],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"LOGURU_AUTOINIT": "0"},
    )  # fmt: skip

    assert (ended.returncode, ended.stderr) == (0, "")
