"""The gateway as a process of its own, on a free port."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx2

from tests.integration.gateway.conftest import KEY, Json, caller, wait_until


class Gateway:
    """`python -m moe_gateway` in front of one instance, until the block is left. `settings` are
    those of the environment, without their prefix."""

    def __init__(self, folder: Path, *instances: Json, **settings: str) -> None:
        own = {
            "PORT": "0",
            "KEY_FILES": json.dumps([str(folder / "key"), str(folder / "service_key")]),
            "INSTANCES": json.dumps(instances, default=str),
            "CHECK_INTERVAL": "0.1",
            "CHECK_TIMEOUT": "60",
            **settings,
        }
        self.log = folder / f"log-{len(list(folder.glob('log-*')))}"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "moe_gateway"],
                env={**os.environ, **{f"MOE_GATEWAY_{name}": own[name] for name in own}},
                stdout=log,
                stderr=log,
            )
        self.client: httpx2.Client = caller("http://127.0.0.1:9")

    def __enter__(self) -> Self:
        wait_until(lambda: "running on " in self.text or self.child.poll() is not None, 60)
        assert self.child.poll() is None, self.text
        self.client = caller(self.text.partition("running on ")[2].split()[0], KEY)
        wait_until(lambda: self.client.get("/health").status_code == 200, 60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.child.kill()
        self.child.wait()

    @property
    def text(self) -> str:
        """Its log."""
        return self.log.read_text()

    def connect(self) -> socket.socket:
        """A raw connection to it."""
        where = urlsplit(str(self.client.base_url))
        return socket.create_connection((where.hostname or "", where.port or 0), timeout=120)
