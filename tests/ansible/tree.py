"""The Ansible tree as data: roles, their defaults, their argument specs, their files."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
ROLES = ROOT / "ansible" / "roles"
INVENTORIES = sorted((ROOT / "inventory").glob("*.yaml"))


def load(file: Path) -> Any:
    return YAML(typ="safe").load(file.read_text(encoding="utf-8"))


def module(name: str) -> ModuleType:
    """A module of Ansible as a module of Python, which Ansible keeps outside of any package."""
    file = ROOT / "ansible" / "plugins" / "modules" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def roles() -> list[str]:
    return sorted(folder.name for folder in ROLES.iterdir() if (folder / "tasks").is_dir())


def defaults(role: str) -> dict[str, Any]:
    file = ROLES / role / "defaults" / "main.yaml"
    return (load(file) or {}) if file.exists() else {}


def entry_points(role: str) -> dict[str, dict[str, Any]]:
    """Entry point -> its options."""
    specs: dict[str, Any] = load(ROLES / role / "meta" / "argument_specs.yaml")["argument_specs"]
    return {name: spec.get("options") or {} for name, spec in specs.items()}


def templates() -> list[Path]:
    return sorted(ROLES.glob("*/templates/**/*.j2"))
