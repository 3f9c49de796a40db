"""A typed client of Consul, on py-consul."""

from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import consul
from pydantic import Field

from hearth.cluster.client import Client, Model
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.errors import NotFound


class Check(Model):
    """One health check: `status` is passing, warning or critical."""

    node: str = Field(alias="Node")
    check_id: str = Field(alias="CheckID")
    name: str = Field("", alias="Name")
    status: str = Field(alias="Status")
    service: str = Field("", alias="ServiceName")
    service_id: str = Field("", alias="ServiceID")
    output: str = Field("", alias="Output")


class Instance(Model):
    """One instance of a service with the state of its checks; `meta` holds strings only."""

    id: str
    service: str
    node: str
    address: str
    port: int
    tags: tuple[str, ...]
    meta: dict[str, str]
    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        """No check is critical."""
        return all(check.status != "critical" for check in self.checks)


class Member(Model):
    """One agent as gossip knows it; `alive` is status 1."""

    name: str = Field(alias="Name")
    address: str = Field(alias="Addr")
    status: int = Field(alias="Status")
    tags: dict[str, str] = Field(alias="Tags")

    @property
    def alive(self) -> bool:
        return self.status == 1


class Consul(Client):
    """`with Consul(Endpoint("https://10.0.0.11:8501", token=…, ca_file=…)) as consul: …`

    Every method raises `ClusterError`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, header="X-Consul-Token", index_header="X-Consul-Index")
        parts = urlsplit(endpoint.url)
        self._library = consul.Consul(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or (443 if parts.scheme == "https" else 80),
            scheme=parts.scheme,
            token=endpoint.token,
            connections_timeout=endpoint.timeout,
        )
        self._library.http.session = self.session

    def leader(self) -> str:
        """host:port of the leader; empty while there is none."""
        return str(self._library.status.leader())

    def members(self) -> list[Member]:
        """The agents that the asked agent knows."""
        return [Member.model_validate(row) for row in self._library.agent.members()]

    def services(self) -> dict[str, list[str]]:
        """Service name -> its tags."""
        services: dict[str, list[str]] = self._library.catalog.services()[1]
        return services

    def instances(self, service: str, *, passing: bool = False) -> list[Instance]:
        """The instances of a service; `passing` leaves out those that are not."""
        rows = self._library.health.service(service, passing=passing)[1]
        return [_instance(row) for row in rows]

    def checks(self, status: str = "critical") -> list[Check]:
        """Every check in that state: passing, warning, critical or any."""
        return [Check.model_validate(row) for row in self._library.health.state(status)[1]]

    def forget(self, node: str, service_id: str) -> None:
        """Take an entry away: from the agent of its machine, which would bring it back, and from
        the catalogue, where an agent whose token for it has ended cannot do so."""
        for member in self.members():
            if member.name == node and member.alive:
                self._forget_at(member.address, service_id)
        body = {"Node": node, "ServiceID": service_id}
        self.session.call("PUT", "catalog/deregister", body)

    def _forget_at(self, address: str, service_id: str) -> None:
        parts = urlsplit(self.endpoint.url)
        host = f"[{address}]" if ":" in address else address
        there = replace(self.endpoint, url=f"{parts.scheme}://{host}:{parts.port}")
        with Consul(there) as agent, suppress(NotFound):
            agent.session.call("PUT", f"agent/service/deregister/{service_id}")


def _instance(row: dict[str, Any]) -> Instance:
    node, service = row["Node"], row["Service"]
    return Instance(
        id=service["ID"],
        service=service["Service"],
        node=node["Node"],
        address=service["Address"] or node["Address"],
        port=service["Port"],
        tags=tuple(service["Tags"] or ()),
        meta=service["Meta"] or {},
        checks=tuple(Check.model_validate(check) for check in row["Checks"]),
    )
