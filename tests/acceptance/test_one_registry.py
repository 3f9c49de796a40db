"""One list of models: what the catalogue says is what every part says."""

import json

import pytest

from hearth.local.embeddings import EXPERT
from hearth.local.speech import MODELS
from hearth.models.catalogue import Catalogue
from tests.acceptance.conftest import Instance
from tests.integration.local.conftest import wait_for


@pytest.mark.proves("001-07")
def test_model_defined_once_is_the_same_in_command_gateway_agent_and_page(
    instance: Instance,
) -> None:
    """Two lists of models would differ one day, and nobody would know which one is right."""
    defined = Catalogue.load()["smollm2"]
    listed = json.loads(instance.place.run("hearth", "models", "list", "--json").stdout)["models"]
    with instance.http() as agent, instance.client() as client:
        experts = agent.get("/api/status").json()["experts"]
        at_agent = {model["id"] for model in agent.get("/v1/models").json()["data"]}
        others = {"auto", defined.name, EXPERT, *MODELS.values()}
        # The gateway asks each service for its model once it is ready.
        wait_for(
            lambda: {model.id for model in client.models.list()} == at_agent | others,
            "the gateway offers the models of all services, and nothing else", 60,
        )  # fmt: skip

    (in_use,) = [model for model in listed if model["in_use"]]
    (expert,) = (one for one in experts if one["name"] != EXPERT)
    assert in_use["name"] == expert["model"] == expert["name"] == defined.name
    assert in_use["license"] == defined.license
    assert {model["name"] for model in listed} == set(Catalogue.load().models)
    assert not list(instance.place.state.rglob("models.yaml"))
