"""`docs/reference/benchmarks.json` and the page made of it."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "reference"

HEAD = """\
# Benchmarks

Made by `make bench`; do not edit. A ratio above 1 means better than the peer. Each figure is the
median of paired runs, ours and the peer's in turns, in one go on one machine.

| what | ours | peer | unit | ratio | goal | runs | on |
|---|---|---|---|---|---|---|---|
"""


def write(entries: list[dict[str, Any]], folder: Path = FOLDER) -> None:
    """Put the entries in the place of older ones with the same id, and write the page anew."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "benchmarks.json"
    known = json.loads(file.read_text(encoding="utf-8"))["entries"] if file.exists() else []
    merged = {entry["id"]: entry for entry in [*known, *entries]}
    ordered = [merged[name] for name in sorted(merged)]
    file.write_text(json.dumps({"entries": ordered}, indent=2) + "\n", encoding="utf-8")
    (folder / "benchmarks.md").write_text(page(ordered), encoding="utf-8")


def page(entries: list[dict[str, Any]]) -> str:
    """The table, then what each benchmark does."""
    rows = [
        f"| `{e['id']}` | {e['ours']:g} | {e['peer']:g} ({e['peer_name']} {e['peer_version']})"
        f" | {e['unit']} | {e['ratio']:g} | {verdict(e)} | {e['runs']} | {e['on']['date']} |"
        for e in entries
    ]
    notes = [note(entry) for entry in entries]
    return HEAD + "\n".join(rows) + "\n\n" + "\n\n".join(notes) + "\n"


def verdict(entry: dict[str, Any]) -> str:
    """What was wanted, as a ratio, as a figure of ours, or both, and whether it was reached."""
    goal, target, wanted = entry["goal"], entry.get("target"), []
    if goal is not None:
        wanted.append(f"{goal:g} {_reached(reached=entry['ratio'] >= goal)}")
    if target is not None:
        sign = "≤" if entry["lower_is_better"] else "≥"
        figure = f"{sign} {target:g} {entry['unit']}"
        wanted.append(f"{figure} {_reached(reached=_on_target(entry))}")
    return ", ".join(wanted)


def _on_target(entry: dict[str, Any]) -> bool:
    ours, target = entry["ours"], entry["target"]
    return bool(ours <= target if entry["lower_is_better"] else ours >= target)


def _reached(*, reached: bool) -> str:
    return "reached" if reached else "missed"


def note(entry: dict[str, Any]) -> str:
    """What was done, on what, and the ratio of every pair."""
    on = entry["on"]
    ratios = ", ".join(f"{ratio:g}" for ratio in entry["ratios"])
    lines = [
        f"Measured on {on['date']}: {on['cpu']}, {on['cores']} cores, load {on['load']} before the"
        f" run, Python {on['python']}, Hearth {on['hearth']}.",
        f"Ratio of each pair: {ratios}.",
        *_target(entry),
        *_others(entry),
        *_also(entry),
    ]
    remarks = "\n".join(f"* {line}" for line in entry.get("remarks", []))
    text = f"## `{entry['id']}`\n\n{entry['about']}\n\n" + "\n".join(lines)
    return f"{text}\n\n{remarks}" if remarks else text


def _target(entry: dict[str, Any]) -> list[str]:
    target = entry.get("target")
    if target is None:
        return []
    bound = "at most" if entry["lower_is_better"] else "at least"
    return [
        f"Target on an idle machine with two cores: {bound} {target:g} {entry['unit']}; here"
        f" {entry['ours']:g}, {_reached(reached=_on_target(entry))}."
    ]


def _others(entry: dict[str, Any]) -> list[str]:
    """What further peers came to in the same turns, and how many times better we are."""
    return [
        f"{one['name']} {one['version']} in the same turns: {one['value']:g} {entry['unit']},"
        f" ratio {one['ratio']:g}."
        for one in entry.get("others", [])
    ]


def _also(entry: dict[str, Any]) -> list[str]:
    seen = ", ".join(f"{name} {value:g}" for name, value in entry.get("also", {}).items())
    return [f"Also seen: {seen}."] if seen else []
