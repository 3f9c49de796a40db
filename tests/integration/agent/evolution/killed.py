"""Run a campaign in child processes that are killed at each of their writes.

    python killed.py ADDRESS KEY STATE_DIR

Each child is killed with SIGKILL at its first write, by turns just before the file gets its new
content and just after. Prints how many were killed, when one ends by itself.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2

from pipecatapp.client import Client
from prompt_engineering.opening import Options, campaign_of


def options(state: Path) -> Options:
    """The campaign, which is the same for each child."""
    name = {"campaign": "killed", "candidates": 2, "seed": 26}
    return Options(prompt="classify", state_dir=state, **name)  # type: ignore[arg-type]


async def run(address: str, key: str, state: Path) -> None:
    """Run the campaign to its end, or to the kill."""
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(
        base_url=address, headers=headers, timeout=60, trust_env=False
    ) as http:
        campaign = await campaign_of(Client(http, address, here=False), options(state))
        await campaign.run()


def kill_at_first_write(*, before: bool) -> None:
    """Have this process killed when `write_atomic` renames its draft."""
    rename = os.replace

    def replace(*args: Any, **more: Any) -> None:
        if not before:
            rename(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace


def main(address: str, key: str, state: str) -> None:
    """Fork children until one is not killed."""
    killed = 0
    while True:
        child = os.fork()
        if child == 0:
            kill_at_first_write(before=killed % 2 == 0)
            asyncio.run(run(address, key, Path(state)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.stdout.write(f"{killed}\n")
            sys.exit(os.waitstatus_to_exitcode(status))
        killed += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
