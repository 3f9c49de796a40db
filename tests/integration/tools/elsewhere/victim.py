"""An agent that is killed while its program runs elsewhere.

    python -m tests.integration.tools.elsewhere.victim FOLDER NOTE SETTINGS DOCUMENT

It ends by SIGKILL as soon as the errand has the file NOTE. SETTINGS is JSON for `open_elsewhere`.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from tests.integration.tools.elsewhere.documents import cluster_engine, named, until


async def main(folder: Path, note: str, settings: str, document: str) -> None:
    async with cluster_engine(folder, document, **named(json.loads(settings))) as engine:
        await engine.start("long", {})
        await until(folder, note)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
