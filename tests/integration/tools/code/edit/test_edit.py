"""The tool `code.edit` on real folders: every format, every rung of the ladder, every refusal."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.conftest import Opened

EDIT = TOOLS["code.edit"]
SHOP = '''"""Prices."""


def total(prices):
    """Add up."""
    result = 0
    for price in prices:
        result += price
    return result


class Cart:
    """What is bought."""

    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)
        return self

    @property
    def size(self):
        return len(self.items)


class Wish:
    def add(self, item):
        self.items.append(item)
        return self
'''
DOC = '''def f():
    """
    >>> for x in 1, 2:
    ...     x
    ...
    >>> y = 1
    >>> z = 2
    >>> y, z
    (1, 2)
    """
'''
DIFF = """--- a/shop.py
+++ b/shop.py
@@ -1,99 +1,99 @@
     result = 0
     for price in prices:
-        result += price
+        result += price.net
     return result
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a module, a test and a link out of it."""
    (root := tmp_path / "work").mkdir()
    (root / "shop.py").write_text(SHOP)
    (root / "doc.py").write_text(DOC)
    (root / "tests").mkdir()
    (root / "tests" / "test_shop.py").write_text("def test_total():\n    assert True\n")
    (tmp_path / "outside.py").write_text("x = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "folder").symlink_to(tmp_path)
    return root


async def apply(root: Path, answer: Any, **given: Any) -> dict[str, Any]:
    """Call the tool on the workspace."""
    return await EDIT.check(Context(workspace=root), {"answer": answer, **given})


def state(root: Path) -> dict[str, bytes]:
    """Every file in and around the workspace."""
    files = [file for file in root.parent.rglob("*") if file.is_file() and not file.is_symlink()]
    return {str(file.relative_to(root.parent)): file.read_bytes() for file in files}


def block(search: str, replace: str, path: str = "shop.py") -> str:
    """A SEARCH/REPLACE block."""
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


AGAIN = """
kind: workflow
id: again
about: The first answer is refused, the second one fits.
steps:
  - {id: write, use: file.write, with: {path: a.py, text: "x = 1\\n"}}
  - id: try
    use: code.edit
    with: {path: a.py, may_touch: ["*.py"], answer: FIRST}
  - id: repair
    if: "{{ try.refusals[0].reason == 'not_found' and 'x = 1' in try.hint }}"
    use: code.edit
    with: {path: a.py, may_touch: ["*.py"], answer: SECOND}
  - {id: read, use: file.read, needs: [repair], with: {path: a.py}}
outputs:
  reason: "{{ try.refusals[0].reason }}"
  text: "{{ read.text }}"
  rung: "{{ repair.files[0].rung }}"
"""
FIRST = "<<<<<<< SEARCH\nx = 1\ny = 1\n=======\nx = 2\n>>>>>>> REPLACE\n"
SECOND = FIRST.replace("y = 1\n", "")
AGAIN = AGAIN.replace("FIRST", json.dumps(FIRST)).replace("SECOND", json.dumps(SECOND))
BLOB = hashlib.sha1(b"blob %d\0" % len(SHOP) + SHOP.encode(), usedforsecurity=False).hexdigest()[:7]
NET = SHOP.replace("+= price", "+= price.net")
SIZE = SHOP.replace("return len(self.items)", "return len(self.items) + 1")
ANSWERS: dict[str, tuple[Any, str, str, str]] = {
    "whole file": (f"shop.py\n```python\n{NET}```", NET, "whole_file", "exact"),
    "whole file, named in the fence": (
        f"Here it is.\n```python shop.py\n{NET}```", NET, "whole_file", "exact",
    ),
    "whole file, bold name": (f"**shop.py**\n\n```\n{NET}```", NET, "whole_file", "exact"),
    "search": (block("        result += price", "        result += price.net"), NET,
               "search_replace", "exact"),
    "search in a fence": (
        "```python\n" + block("        result += price", "        result += price.net") + "```",
        NET, "search_replace", "exact",
    ),
    "search with less indentation": (
        block("for price in prices:\n    result += price",
              "for price in prices:\n    result += price.net"),
        NET, "search_replace", "whitespace",
    ),
    "search whose first line lost its indentation": (
        block("for price in prices:\n        result += price",
              "for price in prices:\n        result += price.net"),
        NET, "search_replace", "whitespace",
    ),
    "search with tabs": (
        block("\tfor price in prices:\n\t\tresult += price",
              "\tfor price in prices:\n\t\tresult += price.net"),
        NET, "search_replace", "whitespace",
    ),
    "diff with wrong counts": (f"```diff\n{DIFF}```", NET, "diff", "exact"),
    "diff without a fence": (
        "Change this:\n\n" + DIFF.replace("-1,99 +1,99", "-6,4 +6,4") + "\nThat is all.",
        NET, "diff", "exact",
    ),
    "diff without numbers": (
        f"```diff\n{DIFF}```".replace("-1,99 +1,99 ", ""), NET, "diff", "exact",
    ),
    "diff whose heading tells two places apart": (
        "```diff\n--- a/shop.py\n+++ b/shop.py\n@@ -30,3 +30,3 @@ class Wish:\n"
        "     def add(self, item):\n-        self.items.append(item)\n"
        "+        self.items.insert(0, item)\n         return self\n```",
        SHOP[:-60] + SHOP[-60:].replace("append(item)", "insert(0, item)"), "diff", "symbol",
    ),
    "diff of exactly this file, whose line number tells two places apart": (
        f"```diff\ndiff --git a/shop.py b/shop.py\nindex {BLOB}..1234567 100644\n--- a/shop.py\n"
        "+++ b/shop.py\n@@ -19 +19 @@\n-        self.items.append(item)\n"
        "+        self.items.insert(0, item)\n```",
        SHOP.replace("append(item)", "insert(0, item)", 1), "diff", "exact",
    ),
    "function": (
        "shop.py::total\n```python\ndef total(prices):\n    return sum(prices)\n```",
        SHOP.replace(SHOP[SHOP.index("def total"): SHOP.index("\n\n\nclass Cart")],
                     "def total(prices):\n    return sum(prices)"),
        "symbol", "symbol",
    ),
    "method with its decorator, without indentation": (
        {"path": "shop.py", "symbol": "Cart.size",
         "source": "@property\ndef size(self):\n    return len(self.items) + 1\n"},
        SIZE, "symbol", "symbol",
    ),
    "method, indented": (
        "shop.py::Cart.size\n```python\n    @property\n    def size(self):\n"
        "        return len(self.items) + 1\n```",
        SIZE, "symbol", "symbol",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.proves("003-11")
async def test_answer_in_any_format_gives_exactly_the_wanted_file(root: Path, name: str) -> None:
    """A model writes one of four formats, seldom without a slip; the result has to be the same."""
    answer, expected, format, rung = ANSWERS[name]

    result = await apply(root, answer)

    assert result["refusals"] == []
    assert (root / "shop.py").read_text() == expected
    (file,) = result["files"]
    assert (file["path"], file["change"]) == ("shop.py", "changed")
    assert (file["format"], file["rung"]) == (format, rung)
    assert file["before"] == hashlib.sha256(SHOP.encode()).hexdigest()
    assert file["after"] == hashlib.sha256(expected.encode()).hexdigest()
    assert result["diff"].startswith("--- a/shop.py\n+++ b/shop.py\n@@ ")


@pytest.mark.parametrize("name", [name for name in ANSWERS if "exactly this" not in name])
@pytest.mark.parametrize("end", ["", "\n"])
async def test_line_ends_and_a_missing_last_one_are_preserved(
    root: Path, name: str, end: str
) -> None:
    """A model writes LF and a last line end whatever the file has; the diff must not show that."""
    answer, expected, *_ = ANSWERS[name]
    before = SHOP.rstrip("\n") + end
    (root / "shop.py").write_bytes(b"\xef\xbb\xbf" + before.replace("\n", "\r\n").encode())

    result = await apply(root, answer)

    assert result["refusals"] == []
    wanted = (expected.rstrip("\n") + end).replace("\n", "\r\n").encode()
    assert (root / "shop.py").read_bytes() == b"\xef\xbb\xbf" + wanted


REFUSED: dict[str, tuple[Any, str]] = {
    "prose": ("I would change `shop.py` so that it uses `net`.", "no_block"),
    "fence without a file": ("```python\nx = 1\n```", "no_block"),
    "SEARCH without a file": (block("    result = 0", "    result = 1", ""), "no_path"),
    "SEARCH without an end": ("shop.py\n<<<<<<< SEARCH\n    result = 0\n=======\n", "unterminated"),
    "file without an end": ("shop.py\n```python\nx = 1\n", "unterminated"),
    "two dividers": (block("=======", "    result = 1"), "malformed"),
    "file that holds a fence": ("shop.py\n```\na\n```python\nb\n```\nc\n```", "malformed"),
    "file that holds a bare fence": ("shop.py\n```\na\n```\nb\n```\nc\n```", "malformed"),
    "diff line without a sign": (f"```diff\n{DIFF}oops\n```", "malformed"),
    "diff cut off by text": (
        DIFF.replace("     for", "for").replace("-1,99 +1,99", "-6,4 +6,4"), "malformed",
    ),
    "elision in a comment": (
        block("    result = 0", "    result = 1\n    # ... rest of the code unchanged"), "elision",
    ),
    "elision in German": (block("    result = 0", "    # … Rest unverändert"), "elision"),
    "elision by dots": (
        "shop.py::total\n```python\ndef total(prices):\n    result = 0\n    ...\n    return 1\n```",
        "elision",
    ),
    "body of dots": ("shop.py::total\n```python\ndef total(prices):\n    ...\n```", "elision"),
    "part of a file as the file": ("shop.py\n```python\ndef total(prices):\n    return 1\n```",
                                   "elision"),
    "elision by dots that the file had, as a doctest has": (
        {"path": "doc.py", "symbol": "f",
         "source": DOC.replace(DOC[DOC.index("    >>> y") : -4], "")},
        "elision",
    ),
    "no change": (block("    result = 0", "    result = 0"), "no_op"),
    "broken syntax": (block("    result = 0", "    result = ("), "does_not_parse"),
    "broken JSON": ("a.json\n```json\n{\"a\": 1,}\n```", "does_not_parse"),
    "broken YAML": ("a.yaml\n```yaml\na: [1\n```", "does_not_parse"),
    "broken TOML": ("a.toml\n```toml\na = \n```", "does_not_parse"),
    "lines that are not there": (block("    result = 7", "    result = 1"), "not_found"),
    "lines that are there twice": (
        block("        self.items.append(item)", "        self.items += [item]"), "ambiguous",
    ),
    "heading of another place": (
        "```diff\n--- a/shop.py\n+++ b/shop.py\n@@ -30 +30 @@ class Other:\n"
        "-        self.items.append(item)\n+        pass\n```", "ambiguous",
    ),
    "diff of another file, whose line number must not count": (
        "```diff\ndiff --git a/shop.py b/shop.py\nindex 7654321..1234567 100644\n"
        "--- a/shop.py\n+++ b/shop.py\n@@ -19 +19 @@\n"
        "-        self.items.append(item)\n+        pass\n```", "ambiguous",
    ),
    "heading of a later definition": (
        "```diff\n--- a/shop.py\n+++ b/shop.py\n@@ -8 +8 @@ class Wish:\n"
        "-        result += price\n+        result -= price\n```", "not_found",
    ),
    "lines of which another place differs in one": (
        block("    def __init__(self):\n        self.items.append(item)\n        return self",
              "    def __init__(self):\n        self.items.append(item)\n        return None"),
        "not_found",
    ),
    "lines that nearly fit another place, too": (
        block("class Wish:\n    def add(self, item):\n        self.items.append(item)\n"
              "        return self",
              "class Wish:\n    def add(self, item):\n        self.items.append(item)\n"
              "        return item"),
        "ambiguous",
    ),
    "tabs where the file has spaces": (
        block("class Wish:", "class Hope:\n\tpass\n\n\nclass Wish:"), "indentation",
    ),
    "indentation that is not certain": (
        block("for price in prices:\n            result += price", "while prices:\n    pass"),
        "indentation",
    ),
    "empty SEARCH in a file": (block("", "x = 1").replace("SEARCH\n\n", "SEARCH\n"), "exists"),
    "blank SEARCH": (block("\n\n", "x = 1"), "empty_search"),
    "the same lines twice": (
        block("    result = 0", "    result = 1") + block("    result = 0", "    result = 2"),
        "overlap",
    ),
    "SEARCH in a new file": (block("x", "y", "new.py"), "no_such_file"),
    "diff that makes a file that is there": (
        "```diff\n--- /dev/null\n+++ b/shop.py\n@@ -0,0 +1 @@\n+x = 1\n```", "exists",
    ),
    "diff that removes other lines": (
        "```diff\n--- a/shop.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n```", "not_found",
    ),
    "renaming diff": (
        "```diff\ndiff --git a/shop.py b/a.py\nrename from shop.py\nrename to a.py\n```",
        "unsupported",
    ),
    "unknown symbol": ("shop.py::Cart.nothing\n```python\ndef nothing(self):\n    pass\n```",
                       "no_symbol"),
    "source of another symbol": ("shop.py::total\n```python\ndef sum(prices):\n    pass\n```",
                                 "wrong_symbol"),
    "source with more than the symbol": (
        "shop.py::total\n```python\nimport math\n\n\ndef total(prices):\n    pass\n```",
        "wrong_symbol",
    ),
    "source without the decorator": (
        "shop.py::Cart.size\n```python\ndef size(self):\n    return 0\n```", "wrong_symbol",
    ),
    "test": ("tests/test_shop.py\n```python\nx = 1\n```", "protected"),
    "not to be touched": ("other/a.py\n```python\nx = 1\n```", "may_touch"),
    "link": (block("x = 1", "x = 2", "link.py"), "symbolic_link"),
    "through a link": (block("x = 1", "x = 2", "folder/outside.py"), "symbolic_link"),
    "git directory": (".git/hooks/pre-commit\n```\nx\n```", "git_directory"),
    "git directory in capitals": ("a/.GIT/config\n```\nx\n```", "git_directory"),
    "out of the workspace": (block("x = 1", "x = 2", "../outside.py"), "path_traversal"),
    "out and in again": (block("x = 1", "x = 2", "tests/../shop.py"), "path_traversal"),
    "absolute path": ("/etc/passwd\n```\nx\n```", "path_traversal"),
    "folder": ("tests/\n```\nx\n```", "not_a_file"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.proves("000-15")
async def test_uncertain_or_forbidden_edit_is_refused_and_changes_nothing(
    root: Path, name: str
) -> None:
    """A wrongly applied edit is the worst mistake; a refused one is asked for again."""
    answer, reason = REFUSED[name]
    before = state(root)
    rules = {
        "may_touch": ["*.py", "*.json", "*.yaml", "*.toml", "tests", "folder", "a/**", ".git/**"],
        "protected": ["tests/*.py"],
    }

    result = await apply(root, answer, **rules)

    assert [one["reason"] for one in result["refusals"]] == [reason]
    assert (result["applied"], result["files"], result["diff"]) == (False, [], "")
    assert result["refusals"][0]["message"] in result["hint"]
    assert state(root) == before


async def test_refusal_of_an_ambiguous_edit_shows_the_candidates(root: Path) -> None:
    """The next prompt has to say which places there are."""
    result = await apply(root, block("        self.items.append(item)", "        pass"))

    (refusal,) = result["refusals"]
    assert [one["line"] for one in refusal["candidates"]] == [19, 29]
    assert "def add(self, item):" in refusal["candidates"][0]["text"]
    assert "line 19" in result["hint"]


async def test_all_files_of_an_answer_are_changed_or_none(root: Path) -> None:
    """Half an answer is a state that nobody meant."""
    good = block("    result = 0", "    result = 1") + "\nnew/a.py\n```python\nx = 1\n```\n"
    before = state(root)

    refused = await apply(root, good + block("nothing", "x", "tests/test_shop.py"))
    assert (refused["applied"], state(root)) == (False, before)
    applied = await apply(root, good)

    assert {file["path"]: file["change"] for file in applied["files"]} == {
        "shop.py": "changed",
        "new/a.py": "added",
    }
    assert (root / "new" / "a.py").read_text() == "x = 1\n"


async def test_files_are_as_before_when_one_cannot_be_written(root: Path) -> None:
    """A full disk or a folder in the way must not leave the first half of an answer."""
    before = state(root)
    answer = block("    result = 0", "    result = 1") + "a\n```\nx\n```\n**a/b**\n```\nx\n```\n"

    with pytest.raises(ToolFailed, match="cannot be written"):
        await apply(root, answer.replace("a\n```", "`a`\n```", 1))

    assert state(root) == before


async def test_diff_creates_and_removes_files_and_keeps_permissions(root: Path) -> None:
    """A diff says more than new text, and an executable file stays one."""
    (root / "shop.py").chmod(0o755)
    diff = (
        "```diff\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
        "--- a/tests/test_shop.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n"
        f"-def test_total():\n-    assert True\n{DIFF}```"
    )

    result = await apply(root, diff)

    assert result["refusals"] == []
    assert [file["change"] for file in result["files"]] == ["added", "removed", "changed"]
    assert (root / "new.txt").read_text() == "x"
    assert not (root / "tests" / "test_shop.py").exists()
    assert (root / "shop.py").stat().st_mode & 0o777 == 0o755


@pytest.mark.proves("000-08")
async def test_text_around_the_edits_is_recorded(root: Path) -> None:
    """What the model said besides is shown to people, and never written into a file."""
    answer = f"Let me fix it.\n\n{block('    result = 0', '    result = 1')}\nRun the tests now."

    result = await apply(root, answer)

    assert result["prose"] == "Let me fix it.\n\n\nRun the tests now."


@pytest.mark.proves("000-15")
async def test_document_asks_again_with_the_reason_of_a_refusal(opened: Opened) -> None:
    """A refused answer is data: a document branches on its reason and goes on in the same run."""
    async with opened(AGAIN) as engine:
        run = await engine.start("again", {})
        result = await engine.wait(run)

    assert result.status == "done", result
    assert result.outputs == {"reason": "not_found", "text": "x = 2\n", "rung": "exact"}
