"""Properties of the gateway's experts, cached for the engine."""

import asyncio
import time
from collections.abc import Collection, Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from pipecatapp.tools.cluster.directory import Directory, ExpertHealth
from pipecatapp.workflow import ModelFacts, ModelNeeds

AUTO = "auto"
PATIENCE: Final = 120.0
"""Seconds after the start of this service for which steps of resumed runs wait for a model."""
HOME_NAMES: Final = (".local", ".lan", ".home.arpa", ".internal", ".consul")


class ExpertFacts(ModelFacts):
    """Answers the engine's questions about models: which takes tools, which fits, what it costs.

    `auto` may be routed to any healthy expert, and the gateway sends requests with tools to an
    expert that supports them, so `auto` supports tools if one healthy expert does. `agent` and
    workflows use separate tools. The data is as old as the last `refresh`.
    """

    def __init__(self, directory: Directory, *, hosted: Collection[str] = ()) -> None:
        """`hosted` are experts that forward requests to other services, whatever their address
        is."""
        self._directory, self._hosted = directory, frozenset(hosted)
        self._experts: list[ExpertHealth] = []
        self._one_works = False
        self._patience_ends = time.monotonic() + PATIENCE

    def takes_tools(self, model: str) -> bool:
        """Whether this model (an id, not a role) can be offered tools."""
        takers = [expert for expert in self._experts if expert.tools != "none"]
        if model == AUTO:
            return any(expert.healthy for expert in takers)
        return any(model in _names(expert) for expert in takers)

    def fitting(self, model: str, needs: ModelNeeds) -> tuple[list[str], str]:
        """The ids to ask; with something needed, `auto` is the experts that have it, the cheapest
        first, because the gateway would choose among others, too.
        """
        if not str(needs):
            return [model], ""
        if model == AUTO:
            fits = [one for one in self._experts if one.healthy and not self._lacks(one, needs)]
            cheapest = sorted(fits, key=lambda one: one.cost)
            return [one.name for one in cheapest], f"no healthy expert has {needs}"
        known = [expert for expert in self._experts if model in _names(expert)]
        if not known:
            return [], "its properties are unknown"
        lacks = ", ".join(self._lacks(known[0], needs))
        return ([], f"not {lacks}") if lacks else ([model], "")

    def cost(self, model: str) -> float:
        """Return the cost of a token relative to the tokens of other models."""
        return next((one.cost for one in self._experts if model in _names(one)), 1.0)

    def context(self, model: str) -> int | None:
        """The tokens of its context. For `auto` the largest among the healthy experts that it may
        be: the gateway sends a long request to the expert with the most room.
        """
        if model != AUTO:
            return next((one.context for one in self._experts if model in _names(one)), None)
        healthy = [one for one in self._experts if one.healthy and not one.embeddings]
        takers = [one for one in healthy if one.tools != "none"]
        return max((one.context for one in takers or healthy if one.context), default=None)

    def knows(self, model: str) -> bool:
        """Whether an expert has this name; true while no expert is known, for `auto`, and for the
        workflows that this service serves.
        """
        own = model in (AUTO, "agent") or model.startswith("workflow/")
        return own or not self._experts or any(model in _names(one) for one in self._experts)

    def served(self, model: str) -> str:
        """The model that answers for a name; the name if several may, or if none is known."""
        found = {one.model or one.name for one in self._answering(model)}
        return found.pop() if len(found) == 1 else model

    def free_slots(self, model: str) -> int:
        """How many requests to it can be answered at the same time now, at least 1."""
        free = 0
        for expert in self._answering(model):
            for place in expert.instances:
                busy = place.in_flight + place.busy_elsewhere
                free += max(0, place.slots - busy) if place.healthy else 0
        return max(1, free)

    def _answering(self, model: str) -> list[ExpertHealth]:
        """The healthy experts that a request to this model may go to."""
        return [
            one
            for one in self._experts
            if one.healthy and not one.embeddings and (model == AUTO or model in _names(one))
        ]

    def _lacks(self, expert: ExpertHealth, needs: ModelNeeds) -> list[str]:
        return list(self._missing(expert, needs))

    def _missing(self, expert: ExpertHealth, needs: ModelNeeds) -> Iterator[str]:
        able = {"tools": expert.tools != "none", "vision": expert.vision}
        able["embeddings"] = expert.embeddings
        yield from sorted(name for name in needs.able if not able.get(name, False))
        if needs.context is not None and (expert.context or 0) < needs.context:
            yield f"room for {needs.context} tokens"
        if needs.max_cost is not None and expert.cost > needs.max_cost:
            yield f"cost {needs.max_cost:g} at most (it is {expert.cost:g})"
        if needs.privacy == "local" and not self._is_at_home(expert):
            yield "at home"

    def _is_at_home(self, expert: ExpertHealth) -> bool:
        """Return whether all servers have an address of this home; unknown addresses are not at
        home."""
        places = expert.instances
        if expert.name in self._hosted or not places:
            return False
        return all(at_home(urlsplit(place.url).hostname or "") for place in places)

    async def refresh(self) -> None:
        """Ask the gateway once."""
        self._experts = await self._directory.experts()
        self._one_works = any(expert.healthy for expert in self._experts)

    def ready(self) -> bool:
        """Return whether an expert is healthy, or the waiting time for all experts is over."""
        return self._one_works or time.monotonic() >= self._patience_ends

    async def keep_fresh(self, *, every: float = 5.0, until_known: float = 0.5) -> None:
        """Refresh until cancelled: often while no expert is known, then every five seconds."""
        while True:
            await self.refresh()
            await asyncio.sleep(every if self._experts else until_known)


def at_home(host: str) -> bool:
    """Whether a host is of this home: a private address, or a name that no public server has."""
    try:
        address = ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(HOME_NAMES))
    return address.is_private or address.is_loopback


def _names(expert: ExpertHealth) -> tuple[str | None, ...]:
    return (expert.name, expert.model, *expert.aliases)
