"""What our services do not load."""

import subprocess
import sys

LOADED = """
import sys
from hearth.service.server import GracefulServer
import uvicorn, uvicorn.server
assert issubclass(GracefulServer, uvicorn.Server)
assert uvicorn.Server is uvicorn.server.Server, "another class than uvicorn's own"
print(*({"click", "uvicorn.supervisors"} & sys.modules.keys()))
for _ in range(2):
    try:
        uvicorn.run()
    except TypeError as error:
        print(error, *({"click"} & sys.modules.keys()))
"""


def test_services_load_no_command_line_but_who_calls_it_gets_it() -> None:
    """It is 1.7 MB in each service; scripted servers are run by it."""
    told = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )

    missing = "run() missing 1 required positional argument: 'app' click"
    assert told.stdout.splitlines() == ["", missing, missing]
