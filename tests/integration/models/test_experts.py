"""The experts of group_vars/all/experts.yaml, which roles and launchers take as they are."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from hearth.models.catalogue import FALLBACK, Catalogue

ROOT = Path(__file__).parents[3]
KEYS = {
    "about", "models", "aliases", "rpc", "context", "slots", "threads", "cost", "count",
    "machines", "backend", "languages", "domains", "fallback", "auto",
}  # fmt: skip


def read(path: str) -> dict[str, Any]:
    return dict(YAML(typ="safe").load((ROOT / path).read_text(encoding="utf-8")))


VARIABLES = read("group_vars/all/experts.yaml")
EXPERTS: dict[str, dict[str, Any]] = VARIABLES["experts"]


@pytest.mark.proves("004-43")
@pytest.mark.parametrize("name", EXPERTS)
def test_list_of_each_expert_ends_in_the_small_model(name: str) -> None:
    """When nothing better loads, the service starts all the same."""
    assert EXPERTS[name]["models"][-1] == FALLBACK


@pytest.mark.parametrize("name", EXPERTS)
def test_expert_names_models_of_the_catalogue_and_known_keys(name: str) -> None:
    """A misspelt name would be found on the machine, after an hour of downloading the others."""
    catalogue = Catalogue.load()

    assert [model for model in EXPERTS[name]["models"] if model not in catalogue.models] == []
    assert EXPERTS[name].keys() <= KEYS


def test_no_two_experts_answer_to_one_name() -> None:
    """The gateway could not tell which of them is meant."""
    names = [*EXPERTS, *(alias for one in EXPERTS.values() for alias in one.get("aliases", []))]

    assert sorted(names) == sorted(set(names))


def test_fallbacks_are_defined() -> None:
    """A misspelt one would be noticed when the expert is down, which is too late."""
    named = {name for one in EXPERTS.values() for name in one.get("fallback", [])}

    assert named <= EXPERTS.keys()


def test_what_is_deployed_is_defined() -> None:
    """The playbook brings these up."""
    assert set(VARIABLES["experts_deployed"]) <= EXPERTS.keys()


def test_role_holds_the_same_small_model() -> None:
    """Ansible cannot ask Python which model is the last resort."""
    role = read("ansible/roles/llama_expert/vars/main.yaml")

    assert role["__llama_expert_fallback"] == FALLBACK
