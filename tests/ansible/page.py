"""The reference page of what a person may set, from the roles' own argument specs."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from tests.ansible import tree

MAIN = tree.ROOT / "group_vars" / "all" / "main.yaml"


def variables_page(head: str) -> str:
    """Variables of the whole cluster, then those of each role."""
    lines = ["# Inventory and variables", "", head]
    lines += [
        "An inventory names the machines; [the guide](../howto/cluster.md) shows one. A variable",
        "may be under `vars:` of `cluster:`, at a machine, or in `host_vars/<machine>.yaml`: each",
        "of these wins over the one before, and all win over `group_vars/all`.",
        "",
        "| group of the inventory | what its machines do | without it |",
        "| --- | --- | --- |",
        "| `cluster` | all machines | required |",
        "| `servers` | run the servers of Consul and Nomad: one or three | the first machine that "
        "never sleeps; of three or more, the first three |",
        "| `builders` | compile the engines | the first machine of each architecture |",
        "| `experts` | run models | all machines |",
        "",
        "## Of the whole cluster",
        "",
        *_cluster(),
    ]
    for role in tree.roles():
        lines += _role(role)
    return "\n".join(lines)


def _cluster() -> list[str]:
    document: CommentedMap = YAML().load(MAIN.read_text(encoding="utf-8"))
    rows = ["| variable | default |", "| --- | --- |"]
    rows += [f"| `{name}` | {_shown(value)} |" for name, value in document.items()]
    return [*rows, "", "`group_vars/all/main.yaml` says above each what it is for.", ""]


def _role(role: str) -> list[str]:
    specs = tree.load(tree.ROLES / role / "meta" / "argument_specs.yaml")["argument_specs"]
    lines: list[str] = []
    for entry, spec in specs.items():
        options = spec.get("options") or {}
        title = role if entry == "main" else f"{role}, `{entry}`"
        lines += [f"## {title}", "", f"{spec['short_description']}.", ""]
        if options:
            lines += ["| variable | type | default | what |", "| --- | --- | --- | --- |"]
            lines += [_option(name, option) for name, option in options.items()]
            lines.append("")
    return lines


def _option(name: str, option: dict[str, Any]) -> str:
    default = "required" if option.get("required") else _shown(option.get("default", ""))
    what = option["description"]
    text = " ".join(what if isinstance(what, list) else [what])
    if "choices" in option:
        text += f" One of {', '.join(str(choice) for choice in option['choices'])}."
    return f"| `{name}` | {option['type']} | {default} | {_plain(text)} |"


def _shown(value: object) -> str:
    text = str(value) if not isinstance(value, bool) else str(value).lower()
    if not text or len(text) > 60 or "\n" in text:
        return "" if not text else "see the role" if "{{" not in text else "derived"
    return f"`{text}`".replace("|", "\\|")


def _plain(text: str) -> str:
    """Ansible's own marks (`C(…)`, `O(…)`, `V(…)`) as code."""
    for mark in ("C(", "O(", "V("):
        while mark in text:
            start = text.index(mark)
            end = text.index(")", start)
            text = f"{text[:start]}`{text[start + 2 : end]}`{text[end + 1 :]}"
    return " ".join(text.split()).replace("|", "\\|")
