"""Workflows as scenes of OpenUSD: what it composes of them is what we compose."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.unit.workflow.layers.scenes import flat, scene, scenes

TOLD = json.loads(Path(__file__).with_name("scenes_by_usd.json").read_text(encoding="utf-8"))
SCENES = {one[0]: one[1:] for one in scenes()}


@pytest.mark.parametrize("name", SCENES)
def test_openusd_composes_the_scene_as_we_compose_the_workflow(name: str) -> None:
    """Who opens a workflow in a program for scenes must see the workflow that would run."""
    documents, layers, select = SCENES[name]
    text = scene(documents, layers, select)
    ours = documents.composition(documents.written["over"], layers, select).value

    told = TOLD["scenes"][name]
    assert hashlib.sha256(text.encode()).hexdigest() == told["sha256"]
    assert flat(ours) == told["composed"]


def test_each_layer_is_a_prim_that_refers_to_the_weaker_one() -> None:
    """A scene that held only the result would hide who said what."""
    lines = scene(*SCENES["all"]).splitlines()

    prims = [
        line.partition('"')[2].partition('"')[0]
        for line in lines
        if line[:6] in ("class ", 'def "l')
    ]
    assert prims == [
        "stated_base", "workflow_base", "stated_over", "workflow_over", "layer_bold_u002d_one",
        "layer_again",
    ]  # fmt: skip
    assert "    prepend references = </layer_bold_u002d_one>" in lines
    assert '    variantSet "speed" = {' in lines
    assert TOLD["usd-core"] == "26.11"
