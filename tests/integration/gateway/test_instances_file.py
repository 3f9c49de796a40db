"""The list of instances in a file: who serves another model tells it the running gateway there."""

import json
from pathlib import Path

from hearth.files import write_atomic
from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat, instances_of, wait_until


def test_file_replaces_the_list_of_the_settings_while_the_gateway_runs(
    lab: Lab, tmp_path: Path
) -> None:
    """A restart of the gateway would cut every answer under way."""
    small, large = ScriptedModel("small"), ScriptedModel("large")
    large.when("Hi").say("I am larger.")
    file = tmp_path / "instances.json"
    agent = lab.agent(ScriptedModel("agent"))
    gateway = lab.gateway(lab.expert(small), agent, instances_file=file)
    kept = next(one for one in instances_of(gateway) if "models" in one)

    write(file, lab.expert(large, name="large"), agent)
    wait_until(lambda: names(gateway.get("/v1/models").json()) == {"auto", "large", "agent"})

    answer = gateway.post(CHAT, json=chat("Hi", model="large")).json()
    assert answer["choices"][0]["message"]["content"] == "I am larger."
    assert gateway.post(CHAT, json=chat("Hi", model="small")).status_code == 404
    assert next(one for one in instances_of(gateway) if "models" in one)["since"] == kept["since"]


def test_file_that_is_there_at_the_start_counts_and_a_damaged_one_changes_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    """The gateway may be restarted after a change, and a half-written list must not empty it."""
    file = tmp_path / "instances.json"
    write(file, lab.expert(ScriptedModel("large"), name="large"))
    gateway = lab.gateway(lab.expert(ScriptedModel("small")), instances_file=file)
    assert names(gateway.get("/v1/models").json()) == {"auto", "large"}

    write_atomic(file, "[{]")
    write(file.with_name("other.json"), lab.expert(ScriptedModel("other"), name="other"))

    assert names(gateway.get("/v1/models").json()) == {"auto", "large"}
    file.with_name("other.json").replace(file)
    wait_until(lambda: names(gateway.get("/v1/models").json()) == {"auto", "other"})


def write(file: Path, *instances: Json) -> None:
    write_atomic(file, json.dumps(instances, default=str))


def names(models: Json) -> set[str]:
    return {model["id"] for model in models["data"]}
