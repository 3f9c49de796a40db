"""Rules about the shape of the repository, so that nobody has to remember them."""

import ast
import re
from pathlib import Path

import pytest

from tests.rules import tree

ROOT_PLACES = {
    ".ci", ".github", ".gitignore", ".dockerignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
    "Makefile", "README.md", "ansible", "ansible.cfg", "bootstrap.sh", "changelog.d",
    "deploy_expert.yaml", "docs", "e2e-tests.yaml", "examples", "fetch.yaml", "group_vars",
    "heal_cluster.yaml",
    "hearth", "host_vars", "inventory", "llama_expert", "moe_gateway", "nomad_jobs", "pipecatapp",
    "playbook.yaml", "power_manager", "prompt_engineering", "pyproject.toml", "requirements",
    "rotate_secrets.yaml",
    "secrets.yaml", "services.yaml", "speech", "tests", "uninstall.yaml", "upgrade.yaml",
}  # fmt: skip
SWAMPS = {"utils", "util", "helpers", "common", "misc", "shared", "base", "manager", "handler"}
LEFTOVERS = re.compile(r"(_old|_new|_v2|\.bak|\.orig|\.rej|~|copy)$|^(tmp|temp|scratch)")
BETRAYING = re.compile(
    r"simulat|placeholder|for now|\bmock|(?-i:\bTODO\b)|(?:#|//)\s*todo\b|\bFIXME\b|\bXXX\b",
    re.IGNORECASE,
)
"""A to-do list of a run is a feature; a note in capitals or in a comment is not."""


@pytest.mark.proves("001-01")
def test_tree_holds_nothing_outside_its_known_places() -> None:
    """A scratch file in the root is found by the next reader, who wonders what it is for."""
    strays = [str(f) for f in tree.files() if f.parts[0] not in ROOT_PLACES]
    leftovers = [str(f) for f in tree.files() if LEFTOVERS.search(f.stem)]

    assert strays == []
    assert leftovers == []


def test_tree_has_no_symbolic_links() -> None:
    """An archive or a checkout that knows no links makes plain files of them (decision 0083)."""
    assert [str(f) for f in tree.files() if (tree.ROOT / f).is_symlink()] == []


def test_no_module_is_named_for_nothing() -> None:
    """A module is named for what it is about, so nobody may name one 'utils'."""
    assert [str(f) for f in tree.python(*tree.PACKAGES, "tests") if f.stem in SWAMPS] == []


@pytest.mark.proves("001-05")
def test_product_code_holds_no_word_of_pretence() -> None:
    """Code that pretends says so, in words that are easy to look for."""
    found = [
        f"{file}:{number}: {line.strip()}"
        for file in tree.product()
        for number, line in enumerate(tree.text(file).splitlines(), 1)
        if BETRAYING.search(line)
    ]

    assert found == []


@pytest.mark.parametrize(
    "package", ["moe_gateway", "llama_expert", "pipecatapp", "power_manager", "speech"]
)
def test_service_package_imports_nothing_by_itself(package: str) -> None:
    """Importing a service must not start a part of it."""
    body = ast.parse(tree.text(Path(package) / "__init__.py")).body

    assert [ast.unparse(part) for part in body if not _is_docstring(part)] == []


def test_only_settings_modules_read_the_environment() -> None:
    """What a program takes from outside is found in one place."""
    readers = [
        str(file)
        for file in tree.product()
        if file.name != "settings.py" and _uses_environment(ast.parse(tree.text(file)))
    ]

    assert readers == READS_ENVIRONMENT


READS_ENVIRONMENT = ["hearth/local/environment.py", "pipecatapp/sandbox/leftovers.py"]
"""What the children of `hearth up` inherit, and `TMPDIR`, which `tempfile` of Python reads too."""


def _is_docstring(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _uses_environment(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
        for node in ast.walk(module)
    )
