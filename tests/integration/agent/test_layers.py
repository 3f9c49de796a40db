"""Layers in the shell: kept in the state directory or named as a file."""

import json
from pathlib import Path

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import command

ZONES = """
id: zones
inputs: {zone: {type: text, default: UTC}}
steps: [{id: look, use: time.now, with: {zone: "{{ inputs.zone }}"}}]
variants: {place: {japan: {set: {look.with.zone: Asia/Tokyo}}}}
outputs: {zone: "{{ look.zone }}"}
"""
LAYER = "kind: layer\nid: home\nof: zones\nset: {look.with.zone: Europe/Berlin}\n"


@pytest.mark.proves("003-02")
def test_layers_of_a_person_are_laid_over_a_kept_workflow(
    empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kept file stays as it is; plan, run, explain and flatten all see the same."""
    for folder, name, text in (("workflows", "zones", ZONES), ("layers", "home", LAYER)):
        (empty_house.state / folder).mkdir()
        (empty_house.state / folder / f"{name}.yaml").write_text(text)
    (file := tmp_path / "layer.yaml").write_text(LAYER.replace("Europe/Berlin", "Asia/Kolkata"))
    hearth = command(empty_house, monkeypatch)

    plain = hearth("plan", "zones")
    laid = hearth("plan", "zones", "--layer", "home")
    strongest = hearth("plan", "zones", "--layer", "home", "--layer", str(file))
    variant = hearth("plan", "zones", "--select", "place=japan")
    explained = hearth("explain", "zones", "look.with.zone", "--layer", "home", "--json")
    flat = hearth("flatten", "zones", "--layer", "home")
    usda = hearth("flatten", "zones", "--layer", "home", "--format", "usda")
    ran = hearth("run", "zones", "--layer", "home", "--json")
    unknown = hearth("plan", "zones", "--layer", "hmoe")

    assert "with zone: {{ inputs.zone }}" in plain.stdout
    assert "with zone: Europe/Berlin" in laid.stdout
    assert "with zone: Asia/Kolkata" in strongest.stdout
    assert "with zone: Asia/Tokyo" in variant.stdout
    opinions = json.loads(explained.stdout)["opinions"]
    assert [(one["by"], one["value"]) for one in opinions][:2] == [
        ("layer home", "Europe/Berlin"),
        ("workflow zones", "{{ inputs.zone }}"),
    ]
    assert "zone: Europe/Berlin" in flat.stdout
    assert "variants" not in flat.stdout
    assert usda.stdout.startswith('#usda 1.0\n(\n    defaultPrim = "layer_home"\n)\n')
    assert json.loads(ran.stdout)["outputs"] == {"zone": "Europe/Berlin"}
    assert (unknown.exit_code, "there is no layer 'hmoe'" in unknown.stderr) == (2, True)
    assert (empty_house.state / "workflows" / "zones.yaml").read_text() == ZONES
