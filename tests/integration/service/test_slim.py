"""What our services do not load."""

import os
import subprocess
import sys
from pathlib import Path

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


GATEWAY = """
import sys
from moe_gateway import __main__ as gateway
gateway.serve = lambda *_, **__: print(*(name for name in sys.modules if "pydantic.v1." in name))
gateway.main()
"""


def test_gateway_does_not_load_a_second_pydantic(tmp_path: Path) -> None:
    """FastAPI looks for models of pydantic 1, and loads all of it for that: 2 MB."""
    (tmp_path / "key").write_text("a" * 40)
    environment = {"MOE_GATEWAY_KEY_FILES": f'["{tmp_path}/key"]', "MOE_GATEWAY_INSTANCES": "[]"}
    told = subprocess.run(
        [sys.executable, "-c", GATEWAY], env=os.environ | environment, capture_output=True,
        text=True, check=True, cwd=tmp_path,
    )  # fmt: skip

    assert told.stdout == "\n"


def test_agent_loads_rich_and_libcst_only_where_they_are_used(tmp_path: Path) -> None:
    """They are a fifth of what its start imports. It ends after that: a setting is wrong."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pipecatapp"], capture_output=True, text=True,
        env=os.environ | {"PIPECATAPP_PORT": "none"}, check=False, cwd=tmp_path,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}

    assert ended.returncode == 1
    assert "pipecatapp.app" in loaded
    # structlog's attempt to import `rich` itself is in the list, too.
    assert [name for name in loaded if name.startswith(("rich.", "libcst"))] == []


AGENT = """
import gc
from hearth.service import server
server.serve = lambda *_, **__: print(gc.isenabled())
from pipecatapp import __main__ as agent
agent.main()
"""


def test_agent_collects_garbage_once_it_serves(tmp_path: Path) -> None:
    """Only its imports go without: a service that never collects grows."""
    for name in ("key", "service_key"):
        (tmp_path / name).write_text("a" * 40)
    environment = {"PIPECATAPP_STATE_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", AGENT], env=os.environ | environment, capture_output=True,
        text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert ended.stdout.splitlines()[-1:] == ["True"], ended.stderr
