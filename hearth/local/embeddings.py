"""The expert for embeddings in the embedded mode: its service, and its entry for the gateway."""

import sys
from typing import Any, Final

from hearth.local.environment import child_environment
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.service.names import EMBEDDINGS, port_of

EXPERT: Final = "multilingual-e5-small"
CONTEXT: Final = 512
SLOTS: Final = 4
"""Requests that the gateway sends at the same time; the expert computes their texts in turn."""
START_SECONDS: Final = 60.0


def embeddings_services(options: Options) -> list[Service]:
    """Return the expert for embeddings; none if it is disabled or not installed."""
    if not options.embeddings:
        return []
    environment = {
        "EMBEDDINGS_HOST": "127.0.0.1",
        "EMBEDDINGS_PORT": str(port_of(EMBEDDINGS, options.port_base)),
        "EMBEDDINGS_KEY_FILE": str(options.state.service_key_file),
        # Threads that wait for the next text must not keep a processor busy.
        "OMP_WAIT_POLICY": "PASSIVE",
        "MALLOC_ARENA_MAX": "2",
    }
    service = Service(
        name=EMBEDDINGS,
        command=(sys.executable, "-P", "-m", "llama_expert.embeddings"),
        port=port_of(EMBEDDINGS, options.port_base),
        environment=child_environment(environment),
        start_seconds=START_SECONDS,
    )
    return [service]


def embeddings_instances(options: Options) -> list[dict[str, Any]]:
    """Return the expert for embeddings as an instance of the gateway."""
    return [
        {
            "url": service.url,
            "expert": EXPERT,
            "key_file": str(options.state.service_key_file),
            "slots": SLOTS,
            "context": CONTEXT,
            "tools": "none",
            "chat": False,
            "structured": False,
            "embeddings": True,
        }
        for service in embeddings_services(options)
    ]
