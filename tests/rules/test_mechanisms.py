"""One mechanism per purpose: child processes and atomic writes are implemented once."""

import ast
from collections.abc import Callable

from tests.rules import tree

SPAWNS = {"create_subprocess_exec", "create_subprocess_shell", "Popen", "posix_spawn"}
SPAWNERS = {
    "hearth/process/child.py": "the manager of child processes",
    "hearth/models/wheel.py": "one pip command, read to its end",
    "pipecatapp/tools/code/packages.py": "one pip command, read to its end",
    "pipecatapp/workspace/git.py": "one git command, read to its end",
    "pipecatapp/sandbox/sandbox.py": "a sandboxed program, in a thread without an event loop",
    "pipecatapp/sandbox/leftovers.py": "the guard, which outlives its service to clean up after it",
}
"""Product files that start processes themselves, with the reason."""

RENAMES = {"rename", "renames", "replace"}
MOVERS = {
    "hearth/files.py": "the atomic writer",
    "hearth/lab/systems.py": "a folder",
    "hearth/lab/disk.py": "folders",
    "hearth/lab/lab.py": "a file that every `lab up` writes again",
    "hearth/local/process/logfile.py": "rotates logs",
    "hearth/local/state/migrations.py": "a folder, and logs",
    "hearth/release/environment.py": "an archive that is built again if it is missing",
    "moe_gateway/keys/store.py": "moves a damaged file aside",
    "pipecatapp/application/backup.py": "folders, and what a restore moves aside",
    "pipecatapp/tools/code/elsewhere/errands.py": "folders, and a bundle of a remote job",
    "pipecatapp/tools/code/packages.py": "a folder",
    "pipecatapp/workspace/folders.py": "a folder",
    "pipecatapp/workspace/uploads.py": "a folder",
}
"""Product files that rename files or folders, with the reason why the writer does not fit."""


def test_only_the_process_package_starts_long_running_children() -> None:
    """Seven managers of processes had seven ways to leave one behind."""
    assert _callers(SPAWNS, _spawns) == set(SPAWNERS)


def test_files_are_replaced_by_the_atomic_writer_only() -> None:
    """A rename without both syncs can lose the old and the new content in a power failure."""
    assert _callers(RENAMES, _renames) == set(MOVERS)


def _callers(names: set[str], matches: Callable[[ast.Call], bool]) -> set[str]:
    texts = {file: tree.text(file) for file in tree.product()}
    return {
        str(file)
        for file, text in texts.items()
        if any(name in text for name in names)
        and any(isinstance(node, ast.Call) and matches(node) for node in ast.walk(ast.parse(text)))
    }


def _spawns(call: ast.Call) -> bool:
    return _name(call) in SPAWNS


def _renames(call: ast.Call) -> bool:
    """Whether it renames a path: `Path` takes one argument, unlike `str` and `datetime`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in RENAMES:
        return False
    module = call.func.value
    if isinstance(module, ast.Name) and module.id in ("os", "shutil"):
        return True
    if len(call.args) != 1 or call.keywords:
        return False
    values = call.args[0]
    merged = isinstance(values, ast.BinOp) and isinstance(values.op, ast.BitOr)
    return not merged and not isinstance(values, ast.Dict)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
