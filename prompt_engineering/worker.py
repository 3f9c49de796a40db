"""`python -m prompt_engineering.worker`: estimate or run a campaign for the instance it belongs to.

Reads one `Order` as JSON from its input. Writes one JSON object to its output: the estimate, the
result, or `error` with exit code 2. It ends with its parent; the campaign goes on from its files.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hearth.process.parent_death import end_with_parent
from hearth.service.settings import trusting
from pipecatapp.client import CLIENT, Client, RequestFailed
from prompt_engineering.archive import InvalidArchive
from prompt_engineering.campaign import CampaignError
from prompt_engineering.cases import InvalidCases
from prompt_engineering.evaluation import CALLER
from prompt_engineering.genome import Id
from prompt_engineering.opening import Options, campaign_of, estimate, locked
from prompt_engineering.selection import Method

ANSWER_SECONDS: Final = 60.0
INVALID: Final = 2


class Order(BaseModel):
    """The work, and the way to the instance. `campaign` is empty for a new one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["estimate", "run"]
    address: str
    key: str = Field(repr=False)
    ca_file: Path | None = None
    state_dir: Path
    prompt: Id
    campaign: str = ""
    method: Method = "pareto"
    seed: int = 0
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 30
    budget: Annotated[int, Field(ge=1)] = 1_000_000
    model: str = ""

    @property
    def options(self) -> Options:
        """The campaign that is ordered."""
        names = ("prompt", "campaign", "method", "seed", "candidates", "budget", "model")
        return Options(state_dir=self.state_dir, **self.model_dump(include={*names}))


async def carry_out(order: Order) -> dict[str, Any]:
    """Estimate, or run to the end of the campaign. Raises as `campaign_of` and `locked` do."""
    async with _client(order) as client:
        if order.action == "estimate":
            cost = await estimate(client, order.options)
            return vars(cost) | {"tokens": cost.tokens}
        with locked(order.options.folder):
            campaign = await campaign_of(client, order.options)
            result = await campaign.run()
    return result.model_dump()


@asynccontextmanager
async def _client(order: Order) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(
        base_url=order.address,
        headers={"authorization": f"Bearer {order.key}", CLIENT: CALLER},
        timeout=httpx2.Timeout(ANSWER_SECONDS, connect=5.0),
        verify=trusting(order.ca_file),
        trust_env=False,
    ) as http:
        yield Client(http, order.address, here=False)


def main() -> None:
    """Carry out the order on the input."""
    end_with_parent(signal.SIGKILL)
    code = 0
    try:
        answer = asyncio.run(carry_out(Order.model_validate_json(sys.stdin.readline())))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        code, answer = INVALID, {"error": f"{fault['loc'][-1]}: {fault['msg']}."}
    except (CampaignError, InvalidCases, InvalidArchive, RequestFailed, OSError) as error:
        code, answer = INVALID, {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
