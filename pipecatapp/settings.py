"""Every setting of the agent service. Nothing else in this package reads the environment."""

import os
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl, Field, IPvAnyNetwork, ValidationInfo, field_validator
from pydantic_settings import SettingsConfigDict

from hearth.service.names import DEFAULT_PORT_BASE, MOE_GATEWAY, PIPECATAPP, port_of
from hearth.service.settings import TlsSettings
from hearth.service.state import StateDir
from hearth.settings import default_state_dir
from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.tools.web.addresses import AddressPolicy
from pipecatapp.voice.manners import Manners
from pipecatapp.workflow.syntax import ModelPart


class Settings(TlsSettings):
    """Read once at start; with none set it fits the default instance of one machine."""

    model_config = SettingsConfigDict(env_prefix="PIPECATAPP_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(
        port_of(PIPECATAPP, DEFAULT_PORT_BASE), ge=0, le=65535, description="TCP port to listen on."
    )
    state_dir: Path = Field(
        default_factory=default_state_dir, description="State directory of this instance."
    )
    catalogue: Path | None = Field(
        None, description="Path of a model catalogue to use instead of Hearth's."
    )
    gateway_url: AnyHttpUrl = Field(
        AnyHttpUrl(f"http://127.0.0.1:{port_of(MOE_GATEWAY, DEFAULT_PORT_BASE)}/v1"),
        description="OpenAI address at which workflows call models.",
    )
    gateway_key_file: Path | None = Field(
        None,
        description="File with the key for the gateway; default: `service_key` of the state"
        " directory.",
    )
    key_files: list[Path] = Field(
        [],
        description="Files with the keys that callers may use; default: both of the state"
        " directory.",
    )
    model_roles: dict[str, str | list[str] | dict[str, Any]] = Field(
        {"default": "auto"},
        description="Model role in workflows -> model of the gateway, or a list of which the first"
        " one that fits and answers is used, or an object like `model:` of a workflow.",
    )
    hosted_models: list[str] = Field(
        [],
        description="Experts that forward requests to hosted models, even if their own address is"
        " local; a workflow with `privacy: local` never uses them.",
    )
    services: dict[str, AnyHttpUrl] = Field(
        {}, description="Service name -> base URL, for the status page and `cluster.status`."
    )
    consul_url: AnyHttpUrl | None = Field(
        None,
        description="The Consul agent of this machine; with it, gateway, services and machines are"
        " found there, and GATEWAY_URL and SERVICES are not used.",
    )
    consul_token_file: Path | None = Field(
        None, description="File with the token for Consul; it is read again for each request."
    )
    nomad_url: str | None = Field(
        None,
        pattern=r"^(https?|unix)://",
        description="Nomad's API for the status page, also `unix:///…/api.sock` of its task API.",
    )
    nomad_token_file: Path | None = Field(None, description="File with the token for Nomad's API.")
    docker_url: str | None = Field(
        None,
        pattern=r"^(https?|unix)://",
        description="Address of the Docker Engine for nodes with `where: docker`.",
    )
    code_job: str | None = Field(
        None, description="Nomad job for nodes with `where: nomad`: `hearth-code`."
    )
    code_url: AnyHttpUrl | None = Field(
        None,
        description="Address at which machines of the cluster reach this service; default: its"
        " listening address.",
    )
    code_ceiling: Ceiling = Field(
        Ceiling(),
        description="Maximum limits of a program in code.run, for every caller:"
        " `seconds`, `memory_mb`, `processes` and `disk_mb`.",
    )
    links: dict[str, AnyHttpUrl] = Field(
        {}, description="Name -> web page of another program, for links on the status page."
    )
    mcp_file: Path | None = Field(
        None, description="File with the MCP servers; default: `mcp.yaml` of the state directory."
    )
    knowledge_model: str = Field(
        "",
        max_length=100,
        description="Expert that embeds the documents of `hearth knowledge`; another one embeds"
        " them again. Default: the one that the index has, else the cheapest with embeddings.",
    )
    knowledge_seconds: float = Field(
        15.0,
        ge=0.1,
        description="Seconds between two comparisons of these documents with the index.",
    )
    searxng_url: AnyHttpUrl | None = Field(
        None, description="Address of a SearXNG instance; without it, search.web is not available."
    )
    web_hosts: list[str] = Field(
        [],
        description="Hosts that every step may request with http.get, http.download and"
        " http.request, such as `api.example.org` or `*.example.org`; a step can name more.",
    )
    web_private: list[str] = Field(
        [],
        description="Private and loopback hosts, addresses and networks that these tools may"
        " request, such as `nas.lan:8080` or `192.168.1.0/24`; steps cannot name more. The browser"
        " opens such a host only if the step names it, too.",
    )
    voice_sessions: int = Field(
        3, ge=0, description="Maximum number of concurrent voice conversations; 0 disables them."
    )
    voice_transcripts: bool = Field(
        default=True,
        description="Store the runs of voice conversations; otherwise they are deleted at the end"
        " of the conversation.",
    )
    voice_udp_ports: str = Field(
        "",
        pattern=r"^(\d{1,5}-\d{1,5})?$",
        description="UDP ports for WebRTC audio, `20000-20100`; empty: any free port.",
    )
    voice_worker_bytes: int = Field(
        1_500_000_000,
        gt=0,
        description="Memory of the voice worker in bytes above which the next conversation gets a"
        " new worker.",
    )
    voice_idle_seconds: float = Field(
        900.0,
        gt=0,
        description="Seconds without speech after which a voice conversation ends.",
    )
    voice_browser: Manners = Field(
        Manners(),
        description="Wake words, conversation window and stop words of browsers.",
    )
    voice_satellite: Manners = Field(
        Manners(wake_words=("okay_nabu",)),
        description="The same for satellites; a satellite that detects its wake "
        "word itself is connected immediately.",
    )
    wyoming_port: int = Field(
        0, ge=0, le=65535, description="TCP port for Wyoming clients; 0 disables it."
    )
    wyoming_host: str = Field("127.0.0.1", description="Address of that port.")
    wyoming_peers: list[IPvAnyNetwork] = Field(
        [ip_network("127.0.0.0/8"), ip_network("::1/128")],
        description="Networks that may use it: Wyoming has no login.",
    )
    satellites: list[Annotated[str, Field(pattern=r"^tcp://[^/:@]+:\d{1,5}$")]] = Field(
        [], description="Wyoming satellites that this service connects to: `tcp://kitchen:10700`."
    )
    public_url: AnyHttpUrl | None = Field(
        None, description="The address for users if this service is behind a proxy."
    )
    gateway_connect_timeout: float = Field(
        3.0, gt=0, description="Seconds to wait for a connection to the gateway."
    )
    gateway_answer_timeout: float = Field(
        300.0, gt=0, description="Seconds without data from a model after which its node fails."
    )
    max_body_bytes: int = Field(
        8 * 1024 * 1024,
        gt=0,
        description="Maximum bytes of a request body; larger ones are refused with 413.",
    )
    drain_seconds: int = Field(
        10, ge=0, description="Seconds for active requests and runs to end after SIGTERM."
    )

    @field_validator("model_roles")
    @classmethod
    def _bound_to_models(cls, value: dict[str, Any]) -> dict[str, Any]:
        for said in value.values():
            ModelPart.model_validate(said)
        return value

    @field_validator("web_hosts", "web_private")
    @classmethod
    def _are_hosts(cls, value: list[str], info: ValidationInfo) -> list[str]:
        if info.field_name == "web_private":
            AddressPolicy(private=value)
        else:
            AddressPolicy(value)
        return value

    @property
    def errands(self) -> Path:
        """Programs that are run elsewhere, and what came of them."""
        return self.state_dir / "errands"

    @property
    def own_url(self) -> str:
        """The address for workers of the cluster, without a slash at its end."""
        return str(self.code_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def state(self) -> StateDir:
        return StateDir(self.state_dir)

    @property
    def mcp_path(self) -> Path:
        return self.mcp_file or self.state_dir / "mcp.yaml"

    @property
    def gateway(self) -> str:
        """The gateway's address without a slash at its end."""
        return str(self.gateway_url).rstrip("/")

    @property
    def service_urls(self) -> dict[str, str]:
        """The services directory with addresses that end in no slash."""
        return {name: str(url).rstrip("/") for name, url in self.services.items()}

    @property
    def public_origin(self) -> str | None:
        """The origin that a browser sends if it connects through the proxy: `https://home.lan`."""
        if self.public_url is None:
            return None
        url = urlsplit(str(self.public_url))
        return f"{url.scheme}://{url.netloc}"

    @property
    def gateway_key_path(self) -> Path:
        return self.gateway_key_file or self.state.service_key_file

    @property
    def key_paths(self) -> list[Path]:
        """The files whose keys open this service; the first one signs the sessions."""
        return self.key_files or [self.state.key_file, self.state.service_key_file]


def inherited() -> Mapping[str, str]:
    """Variables in which people keep secrets of their projects."""
    return os.environ


def worker_environment() -> dict[str, str]:
    """Return the environment of the voice worker: ours, without our settings.

    All threads share one heap: with one per thread, memory grows by session. The log level of
    pipecat must be set before its import; no hub is contacted.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPECATAPP_")}
    return kept | {
        "MALLOC_ARENA_MAX": "2",
        "OMP_WAIT_POLICY": "PASSIVE",
        "LOGURU_AUTOINIT": "0",
        "HF_HUB_OFFLINE": "1",
    }
