"""`hearth doctor`: check everything that Hearth needs on this machine, with a remedy for each."""

import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hearth.local import checks
from hearth.local.commands.status import status_of
from hearth.local.errors import DiskFull, StateError
from hearth.local.options import Options
from hearth.local.speech import MODELS as SPEECH_MODELS
from hearth.local.state.keys import is_private
from hearth.local.state.migrations import MIGRATIONS, state_version
from hearth.models.catalogue import Catalogue, Model, Pinned
from hearth.models.choice import chosen
from hearth.models.errors import ModelError, ModelMissing
from hearth.models.store import ModelStore
from hearth.service.state import STATE_VERSION, Instance, is_locked, read_instance
from hearth.service.version import hearth_version

Verdict = Literal["pass", "warn", "fail"]
COLOURS: dict[Verdict, str] = {"pass": "green", "warn": "yellow", "fail": "bold red"}
OLDEST_PYTHON = (3, 11)
ROOMY_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """The result of one check; a warning or a failure contains the remedy."""

    subject: str
    verdict: Verdict
    fact: str
    remedy: str = ""


def examine(options: Options) -> list[Finding]:
    """Run every check. The check of a model file is cached, so that it is read once."""
    return [finding for check in CHECKS for finding in check(options)]


def show_findings(findings: list[Finding], console: Console) -> None:
    """Print a line for each finding, with its remedy below."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column()
    table.add_column(overflow="fold")
    for finding in findings:
        text = f"{finding.fact}\n→ {finding.remedy}" if finding.remedy else finding.fact
        verdict = Text(finding.verdict, COLOURS[finding.verdict])
        table.add_row(verdict, finding.subject, Text(text))
    console.print(table)


def check_python(options: Options) -> Iterator[Finding]:
    fact = f"Hearth {hearth_version()} on Python {platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("python", "fail", fact, "Install Python 3.11 or newer, then bootstrap again.")
    else:
        yield Finding("python", "pass", fact)


def check_processor(options: Options) -> Iterator[Finding]:
    machine = platform.machine()
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    fact = f"{machine}, {cores} cores"
    if machine == "x86_64" and "avx2" not in _processor_flags():
        yield Finding(
            "processor", "warn", f"{fact}, without AVX2", "Answers will be slow; use small models."
        )
    else:
        yield Finding("processor", "pass", fact)


def check_memory(options: Options) -> Iterator[Finding]:
    try:
        model = _models(options)[0]
    except ModelError as error:
        yield Finding("memory", "fail", error.fact, error.hint)
        return
    free = psutil.virtual_memory().available
    fact = f"{free / 1e9:.1f} GB available; {model.name} takes {model.ram_bytes / 1e9:.1f} GB"
    if free < model.ram_bytes and read_instance(options.state) is None:
        yield Finding(
            "memory", "warn", fact, "Close other programs, or choose a smaller model: "
            "`hearth models list`.",
        )  # fmt: skip
    else:
        yield Finding("memory", "pass", fact)


def check_state(options: Options) -> Iterator[Finding]:
    root = options.state.root
    if not root.exists():
        yield Finding("state", "pass", f"{root} will be created by the first `hearth up`")
        return
    newest = MIGRATIONS[-1].to if MIGRATIONS else STATE_VERSION
    try:
        checks.make_usable(root)
        version = state_version(options.state)
    except (StateError, DiskFull) as error:
        yield Finding("state", "fail", str(error))
        return
    if version is not None and version > newest:
        yield Finding(
            "state", "fail", f"{root} has version {version}; this Hearth supports up to {newest}",
            "Update Hearth, or choose another directory with --state-dir.",
        )  # fmt: skip
    elif version is not None and version < newest:
        yield Finding(
            "state", "warn", f"{root} has version {version}",
            f"The next `hearth up` backs it up and migrates it to version {newest}.",
        )  # fmt: skip
    else:
        yield Finding("state", "pass", f"{root} is writable and has version {newest}")


def check_keys(options: Options) -> Iterator[Finding]:
    for file in (options.state.key_file, options.state.service_key_file):
        if file.exists() and not is_private(file):
            yield Finding(
                "keys", "fail", f"{file} can be read by others", f"Run `chmod 600 {file}`."
            )
            return
    yield Finding("keys", "pass", "readable by their owner only, or not created yet")


def check_disk(options: Options) -> Iterator[Finding]:
    root = options.state.root
    place = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    fact = f"{free / 1e9:.1f} GB free for {root}"
    remedy = "Free some space, or choose a directory on another disk with --state-dir."
    if free < checks.NEEDED_BYTES:
        yield Finding("disk", "fail", fact, remedy)
    elif free < ROOMY_BYTES:
        yield Finding("disk", "warn", fact, remedy)
    else:
        yield Finding("disk", "pass", fact)


def check_models(options: Options) -> Iterator[Finding]:
    store = ModelStore(options.state.models)
    try:
        for model in _models(options):
            yield _check_model(store, model.name, [model])
        for name in SPEECH_MODELS.values() if options.speech else ():
            yield _check_model(store, name, Catalogue.load().speech_model(name).files)
    except ModelError as error:
        yield Finding("model", "fail", error.fact, error.hint)


def check_ports(options: Options) -> Iterator[Finding]:
    if (instance := read_instance(options.state)) is not None:
        for service in instance.services:
            fact = f"{service.port} is held by {service.name} of this instance"
            yield Finding("port", "pass", fact)
        return
    for name, port in options.ports.items():
        if checks.is_free(port):
            yield Finding("port", "pass", f"{port} is free for {name}")
        else:
            holder = checks.port_holder(port)
            yield Finding(
                "port", "fail", f"{port}, which {name} needs, is taken by {holder}",
                "Stop that program, or start Hearth with another --port-base.",
            )  # fmt: skip


MEMORY_MODES: Final = {
    "cgroup": "a cgroup limits their memory",
    "watched": "their memory is watched from outside, since no cgroup can be made here",
}


def check_sandbox(options: Options) -> Iterator[Finding]:
    why = checks.no_sandbox()
    if why:
        yield Finding(
            "sandbox", "warn", f"{why[0]}: workflows that run programs are refused", why[1]
        )
    else:
        how = MEMORY_MODES.get(checks.sandbox_mode(), "how their memory is limited is unknown")
        yield Finding("sandbox", "pass", f"bubblewrap works: workflows can run programs; {how}")


def check_services(options: Options) -> Iterator[Finding]:
    instance = read_instance(options.state)
    if instance is not None:
        yield from _check_running(instance)
    elif is_locked(options.state.lock_file):
        yield Finding("services", "warn", "the instance is starting or stopping", "Try again.")
    else:
        yield Finding("services", "pass", "no instance is running on this state directory")


CHECKS: tuple[Callable[[Options], Iterator[Finding]], ...] = (
    check_python,
    check_processor,
    check_memory,
    check_state,
    check_keys,
    check_disk,
    check_models,
    check_ports,
    check_sandbox,
    check_services,
)


def _check_running(instance: Instance) -> Iterator[Finding]:
    for service in status_of(instance).services:
        fact = f"{service.name}: {service.detail}"
        if service.healthy:
            yield Finding("service", "pass", fact)
        else:
            yield Finding("service", "fail", fact, f"Read `hearth logs {service.name}`.")


def _check_model(store: ModelStore, name: str, files: Sequence[Pinned]) -> Finding:
    try:
        for file in files:
            store.ready(file)
    except ModelMissing:
        return Finding("model", "warn", f"{name} is missing", "The next `hearth up` downloads it.")
    except ModelError as error:
        return Finding("model", "fail", error.fact, error.hint)
    return Finding("model", "pass", f"{name} is installed and intact")


def _models(options: Options) -> list[Model]:
    catalogue = Catalogue.load()
    return [catalogue[name] for name in chosen(options.state)]


def _processor_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
