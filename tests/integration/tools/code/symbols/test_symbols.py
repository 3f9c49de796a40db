"""The tools `code.symbols` and `code.edit` on files of each language, with real ctags."""

from pathlib import Path

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

SYMBOLS = TOOLS["code.symbols"]
EDIT = TOOLS["code.edit"]
C = """#include <x.h>
MODULE("x")
static int
add(int a,
    int b)
{
  return a + b;
}

struct point { int x; };
union value { int i; };
enum color { RED };
typedef int number;
"""
JAVA = """class Cart {
  @Override
  public int size() {
    return 1;
  }

  int other() {
#if X
    if (a) {
#else
    if (b) {
#endif
      return 1;
    }
  }
}
"""
FILES = {
    "a.py": "class A:\n    @property\n    def b(self):\n        def c(): ...\n\n\ndef d(): ...\n",
    "a.c": C,
    "a.cpp": "namespace n {\nclass A {\n  int b() { return 1; }\n};\n}\n",
    "a.cs": "class A {\n  public int B() {\n    return 1;\n  }\n}\n",
    "a.js": "class A {\n  b() {\n  }\n}\nfunction c() {\n}\n",
    "a.ts": "interface I {}\nclass A {\n  b(): number {\n    return 1;\n  }\n}\nenum E { X }\n",
    "a.go": "package main\ntype P struct {\n\tX int\n}\nfunc (p *P) Len() int {\n\treturn 1\n}\n",
    "a.rs": "struct P {}\nimpl P {\n    fn len(&self) {}\n}\nenum E { A }\n",
    "Cart.java": JAVA,
    "a.sql": "CREATE TABLE t (a int);\n",
    "a.sh": "f() {\n  echo\n}\n",
}
EXPECTED = {
    "a.py": {("A", "class"), ("A.b", "method"), ("A.b.c", "function"), ("d", "function")},
    "a.c": {("add", "function"), ("point", "struct"), ("value", "union"), ("color", "enum"),
            ("number", "typedef")},
    "a.cpp": {("n", "namespace"), ("n.A", "class"), ("n.A.b", "method")},
    "a.cs": {("A", "class"), ("A.B", "method")},
    "a.js": {("A", "class"), ("A.b", "method"), ("c", "function")},
    "a.ts": {("I", "interface"), ("A", "class"), ("A.b", "method"), ("E", "enum")},
    "a.go": {("P", "struct"), ("P.Len", "method")},
    "a.rs": {("P", "struct"), ("P.len", "method"), ("E", "enum")},
    "Cart.java": {("Cart", "class"), ("Cart.size", "method"), ("Cart.other", "method")},
    "a.sql": {("t", "table")},
    "a.sh": {("f", "function")},
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a file of each language, and options that ctags must not take from it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".ctags.d").mkdir()
    (tmp_path / ".ctags.d" / "x.ctags").write_text("--languages=none\n")
    return tmp_path


def context(root: Path) -> Context:
    """A call that may use the sandbox."""
    return Context(workspace=root, services={Sandbox: Sandbox()})


@pytest.mark.proves("003-43")
async def test_definitions_of_every_language_are_listed(root: Path) -> None:
    """What a model may name has to be found, and what it may replace needs its lines."""
    result = await SYMBOLS.check(context(root), {})

    found: dict[str, set[tuple[str, str]]] = {}
    for one in result["symbols"]:
        found.setdefault(one["path"], set()).add((one["qualified"], one["kind"]))
    assert found == EXPECTED
    assert (result["unread"], result["cut"]) == ([], False)
    assert [(one["start"], one["line"], one["end"]) for one in result["symbols"]
            if one["path"] == "a.py"] == [(1, 1, 4), (2, 3, 4), (4, 4, 4), (7, 7, 7)]  # fmt: skip


async def test_one_file_is_listed_and_a_broken_one_is_named(root: Path) -> None:
    """A file that does not parse must not look like one without definitions."""
    (root / "a.py").write_text("def (")

    one = await SYMBOLS.check(context(root), {"path": "a.py"})
    few = await SYMBOLS.check(context(root), {"path": ".", "limit": 1})

    assert (one["symbols"], one["unread"]) == ([], ["a.py"])
    assert (len(few["symbols"]), few["cut"]) == (1, True)
    with pytest.raises(ToolFailed):
        await SYMBOLS.check(context(root), {"path": "../x"})


@pytest.mark.parametrize(
    ("path", "symbol", "source", "old"),
    [
        ("a.c", "add", "static long\nadd(long a)\n{\n  return a;\n}",
         C[C.index("static") : C.index("\n\nstruct")]),
        (
            "Cart.java", "Cart.size", "@Override\npublic int size() {\n  return 2;\n}",
            "  @Override\n  public int size() {\n    return 1;\n  }",
        ),
        ("a.cpp", "n::A", "class A {\n  int b() { return 2; }\n}",
         "class A {\n  int b() { return 1; }\n};"),
        ("a.go", "P.Len", "func (p *P) Len() int {\n\treturn 2\n}",
         "func (p *P) Len() int {\n\treturn 1\n}"),
    ],
)  # fmt: skip
async def test_definition_of_another_language_is_replaced(
    root: Path, path: str, symbol: str, source: str, old: str
) -> None:
    """The lines around it stay: a macro above, the return type, the closing `;`."""
    answer = {"path": path, "symbol": symbol, "source": source}

    result = await EDIT.check(context(root), {"answer": answer})

    assert result["refusals"] == []
    indent = old[: len(old) - len(old.lstrip())]
    new = "\n".join(f"{indent}{line}" for line in source.split("\n"))
    new += ";" if old.endswith(";") else ""
    assert FILES[path].count(old) == 1
    assert (root / path).read_text() == FILES[path].replace(old, new)


@pytest.mark.parametrize(
    ("path", "symbol", "source", "reason"),
    [
        ("Cart.java", "Cart.other", "int other() {\n  return 1;\n}", "no_span"),
        ("Cart.java", "Cart.size", "public int size() {\n  return 2;\n}", "wrong_symbol"),
        ("a.js", "A.b", "b() {\n}", "no_span"),
        ("a.go", "P.Cap", "func (p *P) Cap() {\n}", "no_symbol"),
    ],
)
async def test_definition_whose_lines_are_not_certain_is_refused(
    root: Path, path: str, symbol: str, source: str, reason: str
) -> None:
    """ctags reads no preprocessor and does not tell the end in every language."""
    result = await EDIT.check(
        context(root), {"answer": {"path": path, "symbol": symbol, "source": source}}
    )

    assert [one["reason"] for one in result["refusals"]] == [reason]
    assert (root / path).read_text() == FILES[path]


async def test_missing_ctags_is_told_with_its_package(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python needs no ctags; for the rest a person has to know what to install."""
    monkeypatch.setenv("PATH", "/nonexistent")

    assert (await SYMBOLS.check(context(root), {"path": "a.py"}))["symbols"]
    with pytest.raises(ToolFailed, match="apt-get install universal-ctags"):
        await SYMBOLS.check(context(root), {"path": "a.c"})
