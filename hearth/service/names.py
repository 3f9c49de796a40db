"""The one registry of service names and their default ports.

Jobs, roles, discovery, settings prefixes, docs pages and test folders use these names; Python
packages write `_` for `-`.
"""

from typing import Final

PIPECATAPP: Final = "pipecatapp"
MOE_GATEWAY: Final = "moe-gateway"
LLAMA_EXPERT: Final = "llama-expert"
LLAMA_RPC: Final = "llama-rpc"
SPEECH_STT: Final = "speech-stt"
SPEECH_TTS: Final = "speech-tts"
EMBEDDINGS: Final = "embeddings"
POWER_MANAGER: Final = "power-manager"
PROMETHEUS: Final = "prometheus"
NODE_EXPORTER: Final = "node-exporter"
GRAFANA: Final = "grafana"
MOSQUITTO: Final = "mosquitto"
HOME_ASSISTANT: Final = "home-assistant"

BUILT_IN_KEYS: Final = frozenset(("key", "service_key", "people", "services"))
"""Names of the files of the built-in keys, on one machine and on a cluster.

The gateway names a caller after the file of its key and states that name to the agent, so no issued
key may have one of these names."""

DEFAULT_PORT_BASE: Final = 8000

PORT_OFFSETS: Final = {
    PIPECATAPP: 0,
    MOE_GATEWAY: 80,
    LLAMA_EXPERT: 81,
    SPEECH_STT: 91,
    SPEECH_TTS: 92,
    EMBEDDINGS: 93,
}
"""Service name -> its port, counted from the port base of its instance."""

CLUSTER_PORTS: Final = {
    PROMETHEUS: 9090,
    NODE_EXPORTER: 9100,
    GRAFANA: 3000,
    POWER_MANAGER: 8094,
    MOSQUITTO: 8883,
    HOME_ASSISTANT: 8123,
}
"""Service name -> its port, for services that run only in a cluster."""


RESTORED: Final = ".restored"
"""Suffix of a backup's copy of a file that a service has open. The service itself adds missing
entries from it, because only the service may change the file."""


def expert_service(expert: str) -> str:
    """Return the service name of an expert, such as `llama-expert-smollm2`."""
    return f"{LLAMA_EXPERT}-{expert}"


def port_of(service: str, port_base: int = DEFAULT_PORT_BASE) -> int:
    """Return the TCP port of a service of the instance with this port base."""
    return port_base + PORT_OFFSETS[service]
