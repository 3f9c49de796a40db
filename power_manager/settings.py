"""Every setting of the power manager. Nothing else in this package reads the environment."""

from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import SettingsConfigDict

from hearth.service.names import CLUSTER_PORTS, POWER_MANAGER
from hearth.service.settings import StrictSettings, TlsSettings
from power_manager.packets import MAC
from power_manager.presence import GPU_DEVICES

SSH: Final = 22
EVERYONE: Final = IPv4Address("255.255.255.255")
"""All machines of the network to which the default route leads."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


class MachineSettings(BaseModel):
    """One machine that may sleep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="Its name, as in Consul or in the gateway's `instances`.")
    mac: str = Field(
        pattern=f"^{MAC.pattern}$",
        description="Hardware address of its network card, such as `02:00:00:aa:bb:cc`.",
    )
    address: IPv4Interface = Field(
        description="Its IPv4 address with the length of its network prefix, such as"
        " `192.168.1.13/24`."
    )
    port: int = Field(
        SSH, ge=1, le=65535, description="TCP port that shows that it is awake, open or closed."
    )
    broadcast: IPv4Address | None = Field(
        None,
        description="Address to which the packet is sent, besides `address`; default: the broadcast"
        " address of its network, or 255.255.255.255 if `address` has no prefix.",
    )
    wakeable: bool = Field(
        default=True, description="Whether its card supports and has enabled wake-on-LAN."
    )

    sleep_after_seconds: float | None = Field(
        None, gt=0, description="Idle time after which it sleeps; default: that of the service."
    )

    @property
    def broadcast_address(self) -> IPv4Address:
        """The address to which the packet is sent, besides that of the machine."""
        if self.broadcast is not None:
            return self.broadcast
        network = self.address.network
        return network.broadcast_address if network.prefixlen < 31 else EVERYONE

    @field_validator("mac", mode="before")
    @classmethod
    def _in_one_form(cls, mac: object) -> object:
        return mac.strip().lower().replace("-", ":") if isinstance(mac, str) else mac


class Settings(TlsSettings):
    """Read once, at the start."""

    model_config = SettingsConfigDict(env_prefix="POWER_MANAGER_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(
        CLUSTER_PORTS[POWER_MANAGER], ge=1, le=65535, description="TCP port to listen on."
    )
    key_files: Annotated[tuple[Path, ...], Field(min_length=1)] = Field(
        description="Files with the keys that callers may use."
    )
    machines: tuple[MachineSettings, ...] = Field(
        (), description="The machines that may sleep, as a JSON list."
    )
    state_file: Path | None = Field(
        None,
        description="File of the measured wake times and of the long holds; without it, they are"
        " lost at a restart.",
    )
    sleep_after_seconds: float | None = Field(
        None,
        gt=0,
        description="Idle time after which a machine sleeps; without it, it sleeps only if a person"
        " asks for that.",
    )
    quiet_seconds: float = Field(
        10,
        ge=0,
        description="Seconds without a request between the decision that a machine sleeps and its"
        " suspension.",
    )
    suspend_seconds: float = Field(
        60, gt=0, description="Seconds within which a machine that may sleep does so."
    )
    check_seconds: float = Field(
        10, gt=0, description="Seconds between two checks whether a machine is awake."
    )
    probe_seconds: float = Field(
        1, gt=0, description="Seconds in which a machine that is awake must answer."
    )
    attempts: int = Field(3, ge=1, description="How often the packet is sent in one wake.")
    attempt_seconds: float = Field(
        40, gt=0, description="Seconds to wait for the machine after each packet."
    )
    max_body_bytes: int = Field(4096, ge=256, description="Maximum bytes of a request body.")
    drain_seconds: int = Field(5, ge=0, description="Seconds for active requests after SIGTERM.")

    @field_validator("machines")
    @classmethod
    def _are_different(cls, machines: tuple[MachineSettings, ...]) -> tuple[MachineSettings, ...]:
        if len({one.name for one in machines}) < len(machines):
            raise ValueError("two machines have the same name")
        return machines


class SleeperSettings(StrictSettings):
    """Settings of `power_manager.sleeper`, which runs on a machine that sleeps."""

    model_config = SettingsConfigDict(env_prefix="SLEEPER_", frozen=True)

    manager_url: AnyHttpUrl = Field(
        description="The power manager, such as `https://10.0.0.2:8094`."
    )
    machine: Name = Field(description="Name of this machine for the power manager.")
    key_file: Path = Field(description="File with the key for it.")
    ca_file: Path | None = Field(
        None, description="Certificate authority (PEM) of it; without it, those of the system."
    )
    action: Literal["suspend", "hybrid-sleep", "hibernate", "poweroff"] = Field(
        "suspend", description="How it sleeps: a command of systemctl."
    )
    gpu_devices: tuple[str, ...] = Field(
        GPU_DEVICES,
        description="Patterns of the device files that a program has open which uses the graphics"
        " card, as a JSON list.",
    )
