"""Real bugs: a release of a package that fails a test which its next release ships.

The repository of a bug holds the release and, of the next one, the file of that test. The answer is
the change that the next release has made, as far as it fixes the bug.
"""

import ast
import difflib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.projects.sdists import unpack

CONTEXT = 5
"""Lines around a change; fewer are not certain where similar lines follow."""


@dataclass(frozen=True)
class Bug:
    """A bug of a package, as the name of its archives has it."""

    package: str
    version: str
    fixed_in: str
    test: str
    """The id of a test that fails, for pytest."""
    fix: Mapping[str, tuple[str, ...]]
    """For each file that is changed, the functions and constants that fix the bug."""
    suite: tuple[str, ...] = ("tests",)
    """Arguments of pytest for the tests that must not fail afterwards."""

    def __str__(self) -> str:
        return f"{self.package}-{self.version}-{self.test.rpartition('::')[2]}"

    @property
    def command(self) -> str:
        """The command that fails."""
        return f"pytest -q {self.test}"

    @property
    def check(self) -> str:
        """The command whose passing tests must pass afterwards as well."""
        return " ".join(["pytest", "-q", *self.suite])


def repository(bug: Bug, folder: Path) -> tuple[Path, str]:
    """Make the repository with the bug below `folder`; return it, and the answer that fixes it."""
    repo, after = folder / bug.package, folder / "after"
    unpack(bug.package, bug.version, repo)
    unpack(bug.package, bug.fixed_in, after)
    file = bug.test.partition("::")[0]
    (repo / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(after / file, repo / file)
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "main"], ["add", "-f", "."], ["commit", "-qm", str(bug)]):
        subprocess.run([*git, *words], check=True)
    blocks = [
        block
        for path, names in bug.fix.items()
        for block in _blocks(path, (repo / path).read_text(), (after / path).read_text(), names)
    ]
    shutil.rmtree(after)
    return repo, "\n".join([f"It is fixed in {bug.fixed_in}.", *blocks])


def _blocks(path: str, old: str, new: str, names: tuple[str, ...]) -> Iterator[str]:
    """SEARCH/REPLACE blocks that make definitions of the old text those of the new one."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    old_spans, new_spans = dict(_spans(ast.parse(old))), dict(_spans(ast.parse(new)))
    for name in names:
        first, last = old_spans[name]
        replacement = after[slice(*new_spans[name])]
        matcher = difflib.SequenceMatcher(None, before[first:last], replacement, autojunk=False)
        for group in matcher.get_grouped_opcodes(CONTEXT):
            start, end = group[0][1], group[-1][2]
            search = "".join(before[first + start : first + end])
            replace = "".join(replacement[group[0][3] : group[-1][4]])
            yield f"{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def _spans(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, tuple[int, int]]]:
    """The lines of each function and constant, decorators included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _spans(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield f"{prefix}{node.name}", (first - 1, node.end_lineno or 0)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield f"{prefix}{node.targets[0].id}", (node.lineno - 1, node.end_lineno or 0)
