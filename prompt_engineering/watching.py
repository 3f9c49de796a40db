"""Watch runs and health; for each new kind of failure reflect, and adapt where that fits.

Repairs of services are not done here: the supervisor of the instance restarts them, and
`heal_cluster.yaml` repairs a cluster. This module names what to do and leaves it to them.
"""

from dataclasses import dataclass
from typing import Final

from pipecatapp.client import Client
from prompt_engineering.adaptation import Adaptation, adapt, read_adaptation
from prompt_engineering.campaign import CampaignError
from prompt_engineering.diagnosis import Action, Reflection, by_rules, gather, reflect
from prompt_engineering.failures import Failure, recent_failures
from prompt_engineering.opening import Options

HINTS: Final[dict[Action, str]] = {
    "restart": "Run `hearth status`; on a cluster run heal_cluster.yaml.",
    "more_memory": "Give the job more memory, or choose a smaller model.",
    "ask": "Look at the run.",
    "nothing": "",
}


@dataclass(frozen=True)
class Handled:
    """What was done about one failure. `message` says what a person can do next."""

    failure: Failure
    reflection: Reflection
    message: str
    adaptation: Adaptation | None = None


async def handle_failures(client: Client, options: Options, *, model: str = "") -> list[Handled]:
    """Handle the newest failure of each kind once; kinds with an adaptation are left alone until
    their pause is over. Without a model the rules choose. Raises `RequestFailed`.
    """
    return [
        await _handle(client, options, failure, model)
        for failure in await recent_failures(client)
        if not _is_handled(options, failure)
    ]


def _is_handled(options: Options, failure: Failure) -> bool:
    known = read_adaptation(options.folder, failure.fingerprint)
    return known is not None and known.state == "proposed"


async def _handle(client: Client, options: Options, failure: Failure, model: str) -> Handled:
    facts = await gather(client, failure)
    chosen = await reflect(client, facts, model) if model else by_rules(facts)
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
