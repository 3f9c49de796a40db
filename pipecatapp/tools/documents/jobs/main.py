"""Run the program that `job.json` names, and write `result.json`.

An error that a program does not expect ends it with a traceback: the document is damaged then.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pipecatapp.tools.documents.jobs.failed import JobFailed

JOBS: Final = ("read", "write", "check", "render")
"""Each is a module with a function `run`."""


def main() -> None:
    """Read the job, run it, write its result."""
    order = json.loads(Path("job.json").read_bytes())
    if order["job"] not in JOBS:
        raise JobFailed(f"there is no program {order['job']!r}")
    job: Any = import_module(f"pipecatapp.tools.documents.jobs.{order['job']}")
    try:
        result = {"done": job.run(**order["given"])}
    except JobFailed as error:
        result = {"failed": str(error)}
    except RecursionError:
        result = {"failed": "its parts are nested too deeply"}
    Path("result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
