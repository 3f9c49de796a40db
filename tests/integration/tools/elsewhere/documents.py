"""What is run elsewhere, and how it is compared."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from hearth.service.settings import trusting
from pipecatapp.tools.code.elsewhere.errands import Errands
from pipecatapp.tools.code.elsewhere.opening import open_elsewhere
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.workflow import Engine
from tests.integration.tools.conftest import engine_in

SCRIPT = """
cat; echo "$WHO"; cat old; echo changed > old; echo new > sub/new; rm gone; echo wrong >&2; ls sub
exit 3
"""
WORK = """
kind: workflow
id: work
about: A program that reads, changes, adds and removes; and what is there afterwards.
steps:
  - {{id: old, use: file.write, with: {{path: old, text: "old\\n"}}}}
  - {{id: gone, use: file.write, with: {{path: gone, text: gone}}}}
  - {{id: sub, use: file.write, with: {{path: sub/there, text: there}}}}
  - id: work
    use: code.run
    where: {where}
    with: {{language: sh, stdin: "in\\n", environment: {{WHO: me}}, image: "{image}", code: {code}}}
  - {{id: after, use: code.run, with: {{language: sh, code: "cat old sub/new; ls . sub"}}}}
outputs: {{work: "{{{{ work }}}}", after: "{{{{ after.stdout }}}}"}}
"""
LONG = """
kind: workflow
id: long
about: A program that outlives the service.
steps:
  - id: long
    use: code.run
    where: {where}
    with: {{language: sh, image: "{image}", code: "echo begun; {wait}; echo ended", seconds: 120}}
outputs: {{text: "{{{{ long.stdout }}}}"}}
"""


def work(where: str, image: str = "") -> str:
    """The document that is compared."""
    return WORK.format(where=where, image=image, code=json.dumps(SCRIPT))


@contextlib.asynccontextmanager
async def cluster_engine(
    folder: Path,
    *documents: str,
    services: Any = None,
    projects: Any = (),
    **settings: Any,
) -> AsyncIterator[Engine]:
    """An engine whose places are opened as the service opens them."""

    async def places(stack: AsyncExitStack) -> Places:
        return await open_elsewhere(stack, Errands(folder / "errands"), **settings)

    opened = engine_in(
        folder, *documents, places=partial(places), services=services, projects=projects
    )
    async with opened as engine:
        yield engine


def named(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that were JSON, as `open_elsewhere` takes them."""
    if "ca_file" not in settings:
        return settings
    ca_file = Path(settings["ca_file"])
    return {**settings, "ca_file": ca_file, "tls": trusting(ca_file)}


async def outputs_of(engine: Engine, name: str) -> dict[str, Any]:
    """What a run gives, without the time that it took."""
    result = await engine.wait(await engine.start(name, {}))
    assert result.status == "done", result
    with contextlib.suppress(KeyError):
        del result.outputs["work"]["seconds"]
    return result.outputs


async def until(folder: Path, name: str) -> Path:
    """The file of the one errand, once it is there."""
    async with asyncio.timeout(120):
        while True:
            for found in (folder / "errands").glob(f"*/{name}"):
                return found
            await asyncio.sleep(0.05)
