"""The services of an instance on one machine, and the settings of each."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from hearth.files import write_atomic
from hearth.local.embeddings import embeddings_instances, embeddings_services
from hearth.local.environment import (
    child_environment,
    settings_of_people,
    with_settings_of_people,
)
from hearth.local.expert import better_model, ready_models
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.local.speech import (
    little_memory,
    ready_speech,
    speech_instances,
    speech_services,
    speech_urls,
)
from hearth.models.catalogue import Catalogue, Model
from hearth.models.engines import slots_of, stops_unary
from hearth.service.names import LLAMA_EXPERT, MOE_GATEWAY, PIPECATAPP, expert_service, port_of

HOST = "127.0.0.1"
SLOTS = 4
"""Requests that the expert processes at the same time."""

LOAD_SECONDS = 900.0
"""Loading a large model from a slow disk takes long, and the expert may try several models."""


@dataclass(frozen=True)
class Plan:
    """The services that an instance runs, and hints to print once it runs."""

    services: list[Service]
    hints: tuple[str, ...] = ()
    experts: "ExpertPlan | None" = None
    """How the expert is restarted with another model; None without an expert."""


@dataclass(frozen=True)
class ExpertPlan:
    """The expert of an instance: the service that runs a model, and the gateway's list with it."""

    options: Options
    catalogue: Catalogue
    people: Mapping[str, str]
    """Settings for the services that the user has set."""

    def service(self, models: Sequence[Model]) -> Service:
        """Return an expert that tries `models`, best first. Raises `SettingsError`."""
        expert = _expert(self.options, models)
        environment = with_settings_of_people(expert.environment, self.people)
        return replace(expert, environment=environment)

    def tell_gateway(self, models: Sequence[Model]) -> None:
        """Write the list of servers that the running gateway reads again."""
        content = json.dumps(_instances(self.options, models[0]))
        write_atomic(self.options.state.gateway_instances, content, mode=0o600)


def embedded(options: Options, console: Console) -> Plan:
    """Return the services of the embedded mode; download missing models first.

    Progress is shown on `console`. Raises `SettingsError` for an invalid settings file, before any
    download.
    """
    user_settings = settings_of_people(options.state.settings_file)
    catalogue = Catalogue.load(options.catalogue)
    options.state.gateway_instances.unlink(missing_ok=True)
    models = ready_models(options.state, catalogue, console)
    ready_speech(options, console)
    hints = (better_model(models, catalogue, options), little_memory(options))
    services = [
        replace(one, environment=with_settings_of_people(one.environment, user_settings))
        for one in embedded_services(options, models)
    ]
    experts = ExpertPlan(options, catalogue, user_settings)
    return Plan(services, tuple(hint for hint in hints if hint), experts)


def embedded_services(options: Options, models: Sequence[Model]) -> list[Service]:
    """Return experts, speech, gateway and agent, in the order in which they start.

    The expert tries `models`, best first, and has the name of the first.
    """
    return [
        _expert(options, models),
        *embeddings_services(options),
        *speech_services(options),
        _gateway(options, models),
        _agent(options, models[0]),
    ]


def _expert(options: Options, models: Sequence[Model]) -> Service:
    environment = {
        "LLAMA_EXPERT_NAME": models[0].name,
        "LLAMA_EXPERT_HOST": HOST,
        "LLAMA_EXPERT_PORT": str(port_of(LLAMA_EXPERT, options.port_base)),
        "LLAMA_EXPERT_MODELS": json.dumps([model.name for model in models]),
        "LLAMA_EXPERT_MODEL_DIR": str(options.state.models),
        "LLAMA_EXPERT_ENGINE": options.engine,
        "LLAMA_EXPERT_KEY_FILE": str(options.state.service_key_file),
        "LLAMA_EXPERT_SLOTS": str(SLOTS),
    }
    if options.llama_server_binary is not None:
        environment["LLAMA_EXPERT_LLAMA_SERVER_BINARY"] = str(options.llama_server_binary)
    if options.catalogue is not None:
        environment["LLAMA_EXPERT_CATALOGUE"] = str(options.catalogue)
    return Service(
        name=expert_service(models[0].name),
        command=_module("llama_expert"),
        port=port_of(LLAMA_EXPERT, options.port_base),
        environment=child_environment(environment),
        start_seconds=LOAD_SECONDS * len(models),
    )


def _instances(options: Options, model: Model) -> list[dict[str, Any]]:
    """Return the servers behind the gateway; the expert has the name of its first model."""
    state = options.state
    return [
        {
            "url": options.expert,
            "expert": model.name,
            "aliases": [],
            "key_file": str(state.service_key_file),
            "slots": slots_of(options.engine, SLOTS),
            "context": model.context,
            "tools": model.tools,
            "stops_unary": stops_unary(options.engine),
        },
        {
            "url": options.web,
            "key_file": str(state.service_key_file),
            "lists_models": True,
            "stops_unary": True,
        },
        *speech_instances(options),
        *embeddings_instances(options),
    ]


def _gateway(options: Options, models: Sequence[Model]) -> Service:
    state = options.state
    environment = {
        "MOE_GATEWAY_HOST": HOST,
        "MOE_GATEWAY_PORT": str(port_of(MOE_GATEWAY, options.port_base)),
        "MOE_GATEWAY_KEY_FILES": json.dumps([str(state.key_file), str(state.service_key_file)]),
        "MOE_GATEWAY_KEY_STORE": str(state.key_store),
        "MOE_GATEWAY_INSTANCES": json.dumps(_instances(options, models[0])),
        "MOE_GATEWAY_INSTANCES_FILE": str(state.gateway_instances),
    }
    return Service(
        name=MOE_GATEWAY,
        command=_module("moe_gateway"),
        port=port_of(MOE_GATEWAY, options.port_base),
        environment=child_environment(environment),
        # It is ready when the expert is.
        start_seconds=LOAD_SECONDS * len(models) + 30,
        # Until the gateway has asked the agent for its models, a request to it would get a 404.
        ready_path="/v1/models/agent",
        key_file=state.key_file,
    )


def _agent(options: Options, model: Model) -> Service:
    state = options.state
    known = {
        PIPECATAPP: options.web,
        MOE_GATEWAY: options.gateway,
        expert_service(model.name): options.expert,
        **speech_urls(options),
        **{one.name: one.url for one in embeddings_services(options)},
    }
    environment = {
        "PIPECATAPP_HOST": HOST,
        "PIPECATAPP_PORT": str(port_of(PIPECATAPP, options.port_base)),
        "PIPECATAPP_STATE_DIR": str(state.root),
        "PIPECATAPP_GATEWAY_URL": options.api,
        "PIPECATAPP_GATEWAY_KEY_FILE": str(state.service_key_file),
        "PIPECATAPP_KEY_FILES": json.dumps([str(state.key_file), str(state.service_key_file)]),
        "PIPECATAPP_MODEL_ROLES": json.dumps({"default": "auto"}),
        "PIPECATAPP_SERVICES": json.dumps(known),
    }
    if options.catalogue is not None:
        environment["PIPECATAPP_CATALOGUE"] = str(options.catalogue)
    return Service(
        name=PIPECATAPP,
        command=_module("pipecatapp"),
        port=port_of(PIPECATAPP, options.port_base),
        environment=child_environment(environment),
    )


def _module(package: str) -> tuple[str, ...]:
    # -P: modules in the working directory must not replace ours.
    return (sys.executable, "-P", "-m", package)
