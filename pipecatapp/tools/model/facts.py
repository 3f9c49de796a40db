"""What the gateway's experts can do, kept at hand for the engine."""

import asyncio

import structlog

from pipecatapp.tools.cluster.directory import Directory, ExpertHealth

log = structlog.get_logger()

AUTO = "auto"


class ExpertFacts:
    """Answers the engine's question whether a model can be offered tools.

    `auto` may go to any healthy expert, and the gateway sends requests with tools to one that
    takes them, so it takes tools when one healthy expert does. `agent` and workflows bring their
    own. What is known is as old as the last `refresh`.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._experts: list[ExpertHealth] = []
        self._one_works = asyncio.Event()

    def takes_tools(self, model: str) -> bool:
        """Whether this model (an id, not a role) can be offered tools."""
        takers = [expert for expert in self._experts if expert.tools != "none"]
        if model == AUTO:
            return any(expert.healthy for expert in takers)
        return any(model in (expert.name, expert.model) for expert in takers)

    async def refresh(self) -> None:
        """Ask the gateway once."""
        self._experts = await self._directory.experts()
        if any(expert.healthy for expert in self._experts):
            self._one_works.set()
        else:
            self._one_works.clear()

    async def wait_for_an_expert(self, seconds: float) -> bool:
        """Wait until `keep_fresh` sees a healthy expert; tells whether it did in time."""
        try:
            await asyncio.wait_for(self._one_works.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def keep_fresh(self, *, every: float = 5.0, until_known: float = 0.5) -> None:
        """Refresh until cancelled: often while no expert is known, then every five seconds."""
        while True:
            await self.refresh()
            await asyncio.sleep(every if self._experts else until_known)
