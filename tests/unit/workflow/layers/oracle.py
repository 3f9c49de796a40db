"""What OpenUSD makes of the random stacks; its answers are kept in `composed_by_usd.json`.

    uv run --no-project --with usd-core python -m tests.unit.workflow.layers.oracle

OpenUSD is 100 MB for this one question, so it is asked here, where the answers are written down
with its version, and not in every run of the tests. `test_oracle.py` holds our composer to them.

A node is a prim, a field an attribute. Layers are sublayers, the last one strongest; the document
that extends refers to its base, whose variants are stronger than what it states, as ours are.
"""

import json
import sys
from importlib.metadata import version
from typing import Any

from pxr import Sdf, Usd

from tests.unit.workflow.layers.stacks import FILE, stack

STACKS = 100
TYPES = {str: Sdf.ValueTypeNames.String, int: Sdf.ValueTypeNames.Int}


def composed(seed: int) -> dict[str, Any]:
    """The fields of every node that is left, and those of the document itself."""
    drawn, kept = stack(seed), []

    def layer() -> Any:
        kept.append(Sdf.Layer.CreateAnonymous())
        return kept[-1]

    stated = layer()
    for path, fields in drawn["base"]["nodes"].items():
        _say(stated, Sdf.SpecifierDef, {f"{path}.{name}": said for name, said in fields.items()})
        _prim(stated, path, Sdf.SpecifierDef)
    _say(stated, Sdf.SpecifierDef, drawn["base"]["fields"])
    base = layer()
    root = _prim(base, "", Sdf.SpecifierDef)
    root.referenceList.prependedItems.append(Sdf.Reference(stated.identifier, "/w"))
    _variants(base, root, drawn["variants"])
    over = layer()
    root = _prim(over, "", Sdf.SpecifierDef)
    root.referenceList.prependedItems.append(Sdf.Reference(base.identifier, "/w"))
    for axis, choice in drawn["over"]["select"].items():
        root.variantSelections[axis] = choice
    _say(over, Sdf.SpecifierOver, drawn["over"]["fields"] | drawn["over"]["set"])
    whole = layer()
    for said in drawn["layers"]:
        one = layer()
        for path, fields in said["add"].items():
            _prim(one, path, Sdf.SpecifierDef)
            _say(one, Sdf.SpecifierOver, {f"{path}.{key}": value for key, value in fields.items()})
        _say(one, Sdf.SpecifierOver, said["set"])
        for path in said["disable"]:
            _prim(one, path, Sdf.SpecifierOver).active = False
        whole.subLayerPaths.insert(0, one.identifier)
    whole.subLayerPaths.append(over.identifier)
    stage = Usd.Stage.Open(whole)
    return {
        _path(prim): {
            attribute.GetName().replace(":", "."): attribute.Get()
            for attribute in prim.GetAttributes()
        }
        for prim in stage.Traverse()
    }


def _variants(layer: Any, root: Any, variants: dict[str, Any]) -> None:
    for axis, choices in variants.items():
        root.variantSetNameList.prependedItems.insert(0, axis)
        held = Sdf.VariantSetSpec(root, axis)
        for choice, said in choices.items():
            inside = Sdf.VariantSpec(held, choice).primSpec
            for path, value in said["set"].items():
                node, _, field = path.partition(".")
                prim = inside
                for name in node.split("/"):
                    found = prim.nameChildren.get(name)
                    prim = found or Sdf.PrimSpec(prim, name, Sdf.SpecifierOver)
                _attribute(prim, field, value)


def _say(layer: Any, specifier: Any, fields: dict[str, Any]) -> None:
    for path, value in fields.items():
        node, _, field = path.partition(".")
        _attribute(_prim(layer, node, specifier), field, value)


def _prim(layer: Any, path: str, specifier: Any) -> Any:
    whole = Sdf.Path(f"/w/{path}" if path else "/w")
    prim = layer.GetPrimAtPath(whole) or Sdf.CreatePrimInLayer(layer, whole)
    if specifier == Sdf.SpecifierDef:
        prim.specifier = specifier
    return prim


def _attribute(prim: Any, field: str, value: Any) -> None:
    name = field.replace(".", ":")
    found = prim.attributes.get(name) or Sdf.AttributeSpec(prim, name, TYPES[type(value)])
    found.default = value


def _path(prim: Any) -> str:
    return str(prim.GetPath()).removeprefix("/w").lstrip("/")


def main() -> None:
    found = {str(seed): composed(seed) for seed in range(STACKS)}
    told = {"usd-core": version("usd-core"), "composed": found}
    FILE.write_text(json.dumps(told, sort_keys=True, separators=(",", ":")) + "\n")
    sys.stdout.write(f"{len(found)} stacks, usd-core {told['usd-core']}\n")


if __name__ == "__main__":
    main()
