"""Every setting of the gateway. Nothing else in this package reads the environment."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from hearth.service.names import BUILT_IN_KEYS
from hearth.service.settings import TlsSettings

AUTO: Final = "auto"
"""The name of the model that stands for the best fitting expert."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$", max_length=100)]
"""A name that is valid in an HTTP header and in a metric's label."""


class InstanceSettings(BaseModel):
    """One server behind the gateway: of an expert, or one that lists its models itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: AnyHttpUrl = Field(description="Its address without `/v1`.")
    expert: Name | None = Field(None, description="The expert it serves.")
    aliases: tuple[Name, ...] = Field((), description="Other names of the expert.")
    lists_models: bool = Field(
        default=False, description="It lists its models at `GET /v1/models`; never part of `auto`."
    )
    speech: Literal["stt", "tts"] | None = Field(
        None, description="It turns speech into text (`stt`) or text into speech (`tts`)."
    )
    key_file: Path | None = Field(None, description="File with the key that it requires.")
    machine: Name | None = Field(
        None, description="Name of its machine for the power manager, if that may sleep."
    )
    slots: int = Field(1, ge=1, description="Requests that it can process at a time.")
    context: int | None = Field(None, ge=1, description="Size of its context in tokens.")
    tools: Literal["native", "grammar", "none"] = Field(
        "native", description="How its model supports tools, as in the catalogue."
    )
    vision: bool = Field(default=False, description="Its model accepts images.")
    embeddings: bool = Field(default=False, description="It answers `/v1/embeddings`.")
    rerank: bool = Field(default=False, description="It answers `/v1/rerank`.")
    images: bool = Field(default=False, description="It answers `/v1/images/generations`.")
    chat: bool = Field(
        default=True, description="It answers chats; false for embeddings or images only."
    )
    structured: bool = Field(default=True, description="Its engine can enforce a JSON schema.")
    languages: tuple[Name, ...] = Field(
        (), description="Languages of its model (`de`); empty: any."
    )
    domains: tuple[Name, ...] = Field(
        (), description="Subjects for which it is made (`code`); empty: any."
    )
    fallback: tuple[Name, ...] = Field(
        (), description="Experts that answer instead if none of its instances can."
    )
    cost: float = Field(
        1.0, gt=0, description="Cost of a token, relative to those of the other experts."
    )
    auto: bool = Field(default=True, description="It may be selected for the model `auto`.")
    stops_unary: bool = Field(
        default=True,
        description="It ends a request without `stream` if the caller disconnects; otherwise the"
        " gateway requests a stream and assembles the answer.",
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if [self.expert is not None, self.lists_models, self.speech is not None].count(True) != 1:
            raise ValueError("an instance has one of `expert`, `lists_models: true` and `speech`")
        if AUTO in (self.expert, *self.aliases):
            raise ValueError("the name `auto` is reserved: give this expert another name")
        return self


class ListenerSettings(BaseModel):
    """One more address that the gateway listens on, with plain HTTP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: IPv4Address = Field(IPv4Address("127.0.0.1"), description="Address to listen on.")
    port: int = Field(ge=1, le=65535, description="TCP port to listen on.")
    acts_as: Name | None = Field(
        None,
        description="Name of an issued key whose rights requests without a key get; without it, a"
        " key is required.",
    )
    addresses: tuple[IPv4Network, ...] = Field(
        (), description="Addresses and networks that may call without a key."
    )
    names: tuple[str, ...] = Field(
        (), description="Names of this machine that they may use in addition to its addresses."
    )

    @model_validator(mode="after")
    def _is_closed(self) -> Self:
        if (self.acts_as is None) != (not self.addresses):
            raise ValueError("`acts_as` and `addresses` belong together: set both or neither")
        if self.acts_as in BUILT_IN_KEYS:
            raise ValueError("`acts_as` must be a key that `hearth keys add` has made")
        return self


class Settings(TlsSettings):
    """Read once, at the start."""

    model_config = SettingsConfigDict(env_prefix="MOE_GATEWAY_", frozen=True)

    host: IPv4Address = Field(IPv4Address("127.0.0.1"), description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="TCP port to listen on.")
    listeners: tuple[ListenerSettings, ...] = Field(
        (),
        description="More addresses to listen on, with plain HTTP, as a JSON list; for example"
        ' `[{"port": 11434}]` for Ollama\'s programs.',
    )
    key_files: tuple[Path, ...] = Field(
        min_length=1,
        description="Files with one key each; callers send one of them as a Bearer token.",
    )
    key_store: Path | None = Field(
        None, description="File of the keys that `hearth keys` creates, and of their usage."
    )
    instances: tuple[InstanceSettings, ...] = Field(
        (), description="The servers behind the gateway, as a JSON list."
    )
    instances_file: Path | None = Field(
        None,
        description="File with such a list, which replaces `instances` as soon as the file exists,"
        " and is read again when it changes.",
    )
    consul_url: AnyHttpUrl | None = Field(
        None,
        description="The Consul agent of this machine: experts and agents registered there are used"
        " while they are healthy.",
    )
    consul_token_file: Path | None = Field(
        None, description="File with the token for Consul; it is read again for each request."
    )
    expert_key_file: Path | None = Field(
        None, description="File with the key for experts from Consul."
    )
    agent_key_file: Path | None = Field(
        None, description="File with the key for agents from Consul."
    )
    speech_key_file: Path | None = Field(
        None, description="File with the key for speech services from Consul."
    )
    power_url: AnyHttpUrl | None = Field(
        None,
        description="The power manager, such as `http://10.0.0.2:8094`: it wakes the machine of a"
        " model that is asked for.",
    )
    power_key_file: Path | None = Field(None, description="File with the key for it.")
    wake_policy: Literal["wait", "smaller", "refuse"] = Field(
        "wait",
        description="Treatment of a request whose model is on a sleeping machine, which is woken in"
        " each case: `wait` for the machine; `smaller`: a model of its `fallback` answers if one is"
        " ready; `refuse`: 503 with the time after which to try again. The header `x-hearth-wake`"
        " of a request has precedence.",
    )
    wake_seconds: float = Field(
        180, gt=0, description="Maximum seconds that a request waits for a machine; then 503."
    )
    cors_origins: tuple[str, ...] = Field(
        (),
        description="Origins of web pages that may call with a key (`https://ui.home.lan`, or"
        " `*`); empty: none.",
    )
    traces_url: AnyHttpUrl | None = Field(
        None,
        description="A collector of traces by OTLP over HTTP, such as"
        " `http://10.0.0.2:4318/v1/traces`: it receives a trace of each request, without its text."
        " It needs the extra `tracing`.",
    )
    default_model: Name | None = Field(
        None, description="Model that answers requests for unknown names; without it, 404."
    )
    domains: dict[Name, str] = Field(
        {}, description="Description of each domain in one sentence, for the `classifier`."
    )
    classifier: Name | None = Field(
        None,
        description="An expert that determines the domain of a request for `auto`: by embeddings"
        " if it has them, otherwise by answering a question.",
    )
    classifier_seconds: float = Field(
        0.5, gt=0, description="Seconds it may take; then the request is routed without a domain."
    )
    allow_addresses: bool = Field(
        default=False,
        description="Forward requests with addresses of images, which the server then downloads"
        " itself; without it, images must be sent as data.",
    )
    stable_prefixes: bool = Field(
        default=True,
        description="Move lines of a system prompt that change with each turn, such as a clock, to"
        " the end of the prompt, so that a server can reuse its cache of the lines before.",
    )
    max_depth: int = Field(
        8, ge=1, description="Maximum depth of calls of the agent from within its own answers."
    )
    connect_timeout: float = Field(3, gt=0, description="Seconds to wait for a connection.")
    first_byte_timeout: float = Field(
        300, gt=0, description="Seconds to wait for the first byte of an answer."
    )
    idle_timeout: float = Field(
        300, gt=0, description="Seconds for which an answer may pause after it has begun."
    )
    deadline_seconds: float = Field(
        1800, gt=0, description="Maximum seconds of a request, including its wait."
    )
    keepalive_seconds: float = Field(
        15,
        gt=0,
        description="Seconds between keep-alive comments on a stream that has not started.",
    )
    queue_per_key: int = Field(
        64, ge=0, description="Requests of one key that may wait for a slot; above it, 429."
    )
    queue_total: int = Field(
        512, ge=0, description="Requests of all keys that may wait for a slot; above it, 429."
    )
    realtime_per_key: int = Field(
        8, ge=0, description="Realtime sessions that one key may have open; above it, 429."
    )
    circuit_failures: int = Field(
        3,
        ge=1,
        description="Failures in a row after which an instance gets no requests for a while.",
    )
    circuit_seconds: float = Field(
        2, gt=0, description="Seconds of this pause; doubled after each failed attempt, up to 30 s."
    )
    check_interval: float = Field(
        1, gt=0, description="Seconds between two checks of an instance's health."
    )
    check_timeout: float = Field(2, gt=0, description="Maximum seconds of such a check.")
    models_interval: float = Field(
        5, gt=0, description="Seconds after which an instance is asked for its models again."
    )
    responses_seconds: float = Field(
        3600,
        ge=0,
        description="Seconds that a response can be referred to (`previous_response_id`); 0: never."
        " Responses are kept in memory only.",
    )
    responses_per_key: int = Field(256, ge=0, description="Responses that are kept of one key.")
    responses_bytes_per_key: int = Field(
        16 * 1024 * 1024, ge=0, description="Bytes that the responses of one key may take."
    )
    responses_bytes: int = Field(
        64 * 1024 * 1024, ge=0, description="Bytes that the responses of all keys may take."
    )
    max_body_bytes: int = Field(
        32 * 1024 * 1024, ge=1024, description="Largest request; a larger one is refused with 413."
    )
    body_seconds: float = Field(
        60, gt=0, description="Seconds that a caller may take to send a request; then 408."
    )
    drain_seconds: int = Field(
        10, ge=0, description="Seconds that answers under way may take after SIGTERM."
    )

    @field_validator("instances")
    @classmethod
    def _are_different(
        cls, instances: tuple[InstanceSettings, ...]
    ) -> tuple[InstanceSettings, ...]:
        if len({(one.url, one.expert) for one in instances}) < len(instances):
            raise ValueError("two instances have the same url and the same expert")
        return instances

    @model_validator(mode="after")
    def _can_listen(self) -> Self:
        ports = [self.port, *(one.port for one in self.listeners)]
        if len({*ports}) < len(ports):
            raise ValueError("two listeners have the same port")
        own = {path.name for path in self.key_files}
        if any(one.acts_as in own for one in self.listeners):
            raise ValueError("`acts_as` must be a key that `hearth keys add` has made")
        return self

    @model_validator(mode="after")
    def _can_classify(self) -> Self:
        if self.classifier is not None and len(self.domains) < 2:
            raise ValueError("a classifier needs two domains or more to tell apart")
        return self
