"""Watch runs and health; for each new kind of failure reflect, and adapt where that fits.

Repairs of services are done only where a person allows them (`repairs`); else this module names
what to do.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pipecatapp.client import Client
from prompt_engineering.adaptation import Adaptation, adapt, read_adaptation
from prompt_engineering.campaign import CampaignError
from prompt_engineering.diagnosis import Action, Reflection, by_rules, gather, reflect
from prompt_engineering.failures import Failure, recent_failures
from prompt_engineering.opening import Options
from prompt_engineering.repairs import Kind, restart_unhealthy, serve_smaller

HINTS: Final[dict[Action, str]] = {
    "restart": "Run `hearth status`; on a cluster run heal_cluster.yaml.",
    "more_memory": "Give the job more memory, or choose a smaller model.",
    "ask": "Look at the run.",
    "nothing": "",
}


@dataclass(frozen=True)
class Handled:
    """The handling of one failure. `message` names the next action for a person."""

    failure: Failure
    reflection: Reflection
    message: str
    adaptation: Adaptation | None = None


async def handle_failures(
    client: Client,
    options: Options,
    *,
    model: str = "",
    allowed: Collection[Kind] = (),
) -> list[Handled]:
    """Handle the newest failure of each kind once; kinds with an adaptation are left alone until
    their pause is over. Without a model the rules choose. `allowed` repairs are performed, others
    only named. Raises `RequestFailed`.
    """
    return [
        await _handle(client, options, failure, model, allowed)
        for failure in await recent_failures(client)
        if not _is_handled(options, failure)
    ]


def _is_handled(options: Options, failure: Failure) -> bool:
    known = read_adaptation(options.folder, failure.fingerprint)
    return known is not None and known.state == "proposed"


async def _handle(
    client: Client, options: Options, failure: Failure, model: str, allowed: Collection[Kind]
) -> Handled:
    facts = await gather(client, failure)
    chosen = await reflect(client, facts, model) if model else by_rules(facts)
    if chosen.action in allowed:
        return Handled(failure, chosen, await _repaired(client, options, failure, chosen.action))
    if chosen.action != "adapt":
        return Handled(failure, chosen, HINTS[chosen.action])
    try:
        adaptation, result = await adapt(client, options, failure)
    except CampaignError as error:
        return Handled(failure, chosen, str(error))
    proposed = result.decision == "promote"
    name = adaptation.campaigns[-1]
    message = f"Decide with `hearth evolve promote {name}`." if proposed else "Nothing is proposed."
    return Handled(failure, chosen, message, adaptation)


async def _repaired(client: Client, options: Options, failure: Failure, action: Action) -> str:
    if action == "more_memory":
        return await serve_smaller(client, options.folder, failure.run)
    done = await restart_unhealthy(client, options.folder)
    return " ".join(done) or "The service is healthy again, or has just failed."
