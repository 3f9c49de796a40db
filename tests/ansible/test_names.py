"""Names of plays, tasks and handlers: a run must read as a log of what happens to the machines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.ansible import tree
from tests.rules.tree import files

SECTIONS = ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always")
VERBS = {
    "activate", "apply", "build", "check", "compare", "compile", "configure", "copy", "create",
    "deploy", "download", "drain", "enable", "evaluate", "fetch", "find", "gather", "generate",
    "import", "inspect", "install", "issue", "join", "kill", "leave", "link", "list", "load",
    "mark", "move", "pack", "prepare", "probe", "publish", "purge", "read", "reboot", "record",
    "register", "reload", "remove", "rename", "render", "repair", "replace", "report",
    "request", "require", "reschedule", "reset", "resolve", "restart", "revoke", "rotate",
    "run", "save", "select", "send", "set", "skip", "start", "stop", "store", "sync",
    "synchronize", "test", "transfer", "trust", "uninstall", "unmount", "unpack", "update",
    "upgrade", "validate", "verify", "wait", "write",
}  # fmt: skip
"""Imperative verbs that a name may begin with. Add a verb if an operator would use it."""
PRONOUNS = {
    "everything", "it", "its", "itself", "ones", "others", "something", "their", "theirs",
    "them", "these", "they", "those", "what", "which", "who", "whom", "whose",
}  # fmt: skip
"""Words that hide the object of an action, wherever they are in a name."""
INCOMPLETE = {
    "a", "all", "an", "any", "both", "each", "every", "one", "that", "the", "this",
}  # fmt: skip
"""Words that are no object by themselves."""
PHRASES = re.compile(
    r"\b(again and again|anew|by way of|given|had|heard|is no|no more|of before|said|seen|so that"
    r"|stands|tell|the one|told)\b"
)
"""Phrases that plain technical English has a shorter or clearer word for."""
NOTIFIED = re.compile(r"\w*notify")


def _documents() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each list of plays or tasks with its file, and the examples of each module."""
    for file in files():
        beside = file.parts[0] == "ansible" or file.parts[:2] == ("tests", "ansible")
        if file.suffix in {".yaml", ".yml"} and (beside or len(file.parts) == 1):
            document = tree.load(tree.ROOT / file)
            if isinstance(document, list):
                yield str(file), document
        elif file.match("ansible/plugins/modules/*.py"):
            text = (tree.ROOT / file).read_text(encoding="utf-8")
            examples = text.partition('EXAMPLES = """')[2].partition('"""')[0]
            yield str(file), YAML(typ="safe").load(examples)


def _walk(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each play, task and block, and those inside of them."""
    for item in items:
        yield item
        for section in SECTIONS:
            yield from _walk(item.get(section) or [])


def _problems(name: str) -> list[str]:
    """List the rules that a name breaks. A template counts as a word."""
    words = re.findall(r"[\w.'-]+", re.sub(r"{{.*?}}", "value", name).lower())
    rules = {
        "does not begin with a listed verb": words[:1] == [] or words[0] not in VERBS,
        "has no object": set(words[1:]) <= INCOMPLETE or words[-1] in INCOMPLETE,
        "has a pronoun": not PRONOUNS.isdisjoint(words),
        "has a banned phrase": bool(PHRASES.search(name.lower())),
        "is not capitalized": not name[:1].isupper(),
        "ends with a full stop": name.endswith("."),
    }
    return [rule for rule, broken in rules.items() if broken]


def test_every_name_states_an_action_and_an_object() -> None:
    """An operator reads the banners of a run, not the files."""
    found = [
        f"{file}: {name!r} {', '.join(problems)}"
        for file, document in _documents()
        for item in _walk(document)
        if (problems := _problems(name := item.get("name", "")))
    ]

    assert found == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "does not begin with a listed verb"),
        ("Secrets", "does not begin with a listed verb"),
        ("Forget the settings of the first boot", "does not begin with a listed verb"),
        ("Fetch", "has no object"),
        ("Remove this", "has no object"),
        ("Unpack them", "has a pronoun"),
        ("Check who may become root", "has a pronoun"),
        ("Issue a certificate anew", "has a banned phrase"),
        ("copy the program", "is not capitalized"),
        ("Copy the program.", "ends with a full stop"),
    ],
)
def test_name_that_says_nothing_is_refused(name: str, problem: str) -> None:
    """Each rule finds what it is for."""
    assert problem in _problems(name)


@pytest.mark.parametrize("role", tree.roles())
def test_every_notified_handler_exists(role: str) -> None:
    """Ansible reports a handler that is missing only when the task changes something."""
    folder = tree.ROLES / role
    handlers = [item for file in folder.glob("handlers/*.yaml") for item in _walk(tree.load(file))]
    topics = {name for item in handlers for name in (item["name"], item.get("listen"))}

    assert set(_notified(folder)) <= topics


def _notified(folder: Path) -> Iterator[str]:
    """Yield the handlers that tasks of a role notify, by themselves or through another role."""
    for file in folder.glob("*/*.yaml"):
        for item in _walk(document) if isinstance(document := tree.load(file), list) else []:
            for key, value in {**item, **item.get("vars", {})}.items():
                if NOTIFIED.fullmatch(key) and "{{" not in value:
                    yield from [value] if isinstance(value, str) else value
