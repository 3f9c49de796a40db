"""The tool `image.make` in runs of the real engine, through a real gateway."""

from pathlib import Path

import pytest

from hearth.openai_api.client import ModelClient
from pipecatapp.tools import TOOLS
from pipecatapp.tools.images.png import metadata, size_of
from pipecatapp.workflow import ToolFailed
from tests.integration.tools.conftest import Opened
from tests.integration.tools.images.conftest import Gateways, context, files, outcome

MAKE = """
kind: workflow
id: poster
about: A picture.
inputs: {prompt: text}
outputs: {picture: "{{ make }}"}
steps:
- id: make
  use: image.make
  with: {prompt: "{{ inputs.prompt }}", path: poster.png, width: 256, height: 128, seed: 7}
"""
CHART = {"kind": "bar", "labels": ["a", "b"], "series": [{"values": [1, 2]}]}


@pytest.mark.proves("000-04")
@pytest.mark.proves("003-09")
@pytest.mark.proves("003-39")
async def test_picture_of_an_expert_is_in_the_workspace_with_its_facts(
    opened: Opened, client: ModelClient, gateways: Gateways, tmp_path: Path
) -> None:
    """Prompt, seed and model are in the PNG, so that it can be made again."""
    async with opened(MAKE, services={ModelClient: client}) as engine:
        picture = await outcome(engine, "poster", {"prompt": "a red fox, лиса"})

    (file,) = files(tmp_path, "poster.png")
    png = file.read_bytes()
    assert size_of(png) == (256, 128) == (picture["width"], picture["height"])
    assert metadata(png) == {
        "Software": "Hearth",
        "prompt": "a red fox, лиса",
        "seed": "7",
        "model": "draws",
    }
    assert gateways.expert.requests[0].body["seed"] == 7


async def test_drawing_is_made_where_no_expert_is(without: ModelClient, tmp_path: Path) -> None:
    """A document names it, so that the workflow works in every home."""
    ctx = context(without, tmp_path)
    asked = {"prompt": "two bars", "path": "a.png", "drawing": CHART}
    assert (await TOOLS["image.make"].check(ctx, asked))["model"] == "hearth-drawing/1"
    assert metadata((tmp_path / "a.png").read_bytes())["model"] == "hearth-drawing/1"


async def test_drawing_is_made_where_the_document_asks_for_it(
    client: ModelClient, gateways: Gateways, tmp_path: Path
) -> None:
    """Without a request to the expert."""
    flow = {"kind": "flow", "edges": [{"from": "a", "to": "b"}]}
    asked = {"prompt": "x", "path": "a.png", "backend": "drawing", "drawing": flow}
    assert (await TOOLS["image.make"].check(context(client, tmp_path), asked))["width"] > 0
    assert gateways.expert.requests == []


async def test_prompt_without_an_expert_is_refused_with_what_to_do(
    without: ModelClient, tmp_path: Path
) -> None:
    """A person learns how to add one, and what works without."""
    with pytest.raises(ToolFailed, match=r"No expert of this home makes images.*image\.chart"):
        await TOOLS["image.make"].check(
            context(without, tmp_path), {"prompt": "x", "path": "a.png"}
        )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"path": "a.jpg"}, "must end in .png"),
        ({"path": "../a.png"}, "leads out of the workspace"),
        ({"model": "small"}, "does not make images"),
        ({"model": "unknown"}, "does not exist"),
        ({"width": 100, "height": 4096, "model": "draws", "backend": "drawing"}, "nothing to draw"),
    ],
)
async def test_wrong_input_is_refused(
    client: ModelClient, tmp_path: Path, asked: dict[str, object], reason: str
) -> None:
    """With a sentence, and without a file."""
    ctx = context(client, tmp_path)
    with pytest.raises(ToolFailed, match=reason):
        await TOOLS["image.make"].check(ctx, {"prompt": "x", "path": "a.png", **asked})
    assert not (tmp_path / "a.png").exists()


async def test_same_seed_is_asked_for_again_in_the_same_run(
    client: ModelClient, gateways: Gateways, tmp_path: Path
) -> None:
    """A resumed run gets the same picture, another run another one."""
    seeds = []
    for run in ("r1", "r1", "r2"):
        ctx = context(client, tmp_path, run)
        seeds.append(
            (await TOOLS["image.make"].check(ctx, {"prompt": "x", "path": "a.png"}))["seed"]
        )
    assert seeds[0] == seeds[1] != seeds[2]
    assert [one.body["seed"] for one in gateways.expert.requests] == seeds
