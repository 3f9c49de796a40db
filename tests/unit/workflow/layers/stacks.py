"""Random stacks of opinions: one document extended by another, variants, layers. Nothing of ours is
imported here, because the oracle draws the same stacks in an environment of its own.
"""

import random
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FILE = Path(__file__).with_name("composed_by_usd.json")
"""What the oracle makes of them."""
FIELDS: dict[str, tuple[Any, ...]] = {
    "model": ("fast", "slow", "small"),
    "about": ("one", "two", "three"),
    "with.text": ("a", "b", "c"),
    "with.max_tokens": (1, 2, 3),
}
ROOT_FIELDS: dict[str, tuple[Any, ...]] = {".about": ("x", "y", "z"), ".limits.nodes": (5, 6, 7)}


def stack(seed: int) -> Json:
    """One of them: `base` and its `variants`, the document `over` with what it selects, `layers`.

    Nodes are named by their paths, `a/b`. An opinion is about a node that is there when it is laid,
    from the weakest to the strongest.
    """
    dice = random.Random(seed)
    nodes = {"a": _fields(dice), "b": _fields(dice), "b/c": _fields(dice), "b/d": _fields(dice)}
    alive = set(nodes)
    variants: Json = {}
    for axis in ("speed", "tone"):
        touched = {choice: _opinions(dice, sorted(alive)) for choice in ("low", "high")}
        for said in touched.values():
            said["disable"] = []
        variants[axis] = touched
    select = {axis: dice.choice(("low", "high")) for axis in variants if dice.random() < 0.7}
    over = {"fields": _root(dice), "set": _set(dice, sorted(alive))}
    layers = []
    for number in range(dice.randrange(4)):
        layer = _opinions(dice, sorted(alive))
        layer["set"] |= _root(dice)
        layer["add"] = {}
        if dice.random() < 0.5:
            scope = dice.choice(["", "b"]) if "b" in alive else ""
            name = f"{scope}/new{number}".lstrip("/")
            layer["add"] = {name: _fields(dice)}
        for gone in layer["disable"]:
            alive = {path for path in alive if path != gone and not path.startswith(f"{gone}/")}
        added = {name for name in layer["add"] if name.rpartition("/")[0] in ("", *alive)}
        layer["add"] = {name: layer["add"][name] for name in added}
        alive |= added
        layers.append(layer)
    return {
        "base": {"fields": _root(dice), "nodes": nodes},
        "variants": variants,
        "over": {**over, "select": select},
        "layers": layers,
    }


def _opinions(dice: random.Random, alive: list[str]) -> Json:
    leaves = [path for path in alive if path != "b"]
    disable = [dice.choice(leaves)] if leaves and dice.random() < 0.3 else []
    said = _set(dice, [path for path in alive if path not in disable])
    return {"set": said, "disable": disable}


def _set(dice: random.Random, alive: list[str]) -> Json:
    paths = [path for path in alive if path != "b" and dice.random() < 0.6]
    return {f"{path}.{field}": value for path in paths for field, value in _fields(dice).items()}


def _fields(dice: random.Random) -> Json:
    return {name: dice.choice(values) for name, values in FIELDS.items() if dice.random() < 0.6}


def _root(dice: random.Random) -> Json:
    return {
        name: dice.choice(values) for name, values in ROOT_FIELDS.items() if dice.random() < 0.5
    }
