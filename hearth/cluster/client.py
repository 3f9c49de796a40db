"""The common base of the clients of Consul and Nomad: both are quorums with an HTTP API."""

from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from hearth.cluster.endpoint import Answer, Endpoint, Session


class Model(BaseModel):
    """A part of a response, with the fields that are used here."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Peer(Model):
    """One server of the quorum; `address` is host:port."""

    id: str = Field(alias="ID")
    name: str = Field(alias="Node")
    address: str = Field(alias="Address")
    leader: bool = Field(alias="Leader")
    voter: bool = Field(alias="Voter")


class Client:
    """A client with one HTTP session, which is closed at the end of its `with` block.

    Every method raises `ClusterError`.
    """

    def __init__(self, endpoint: Endpoint, *, header: str, index_header: str) -> None:
        self.endpoint = endpoint
        self.session = Session(endpoint, header=header, index_header=index_header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.close()

    def peers(self) -> list[Peer]:
        """Return the servers of the quorum, from raft's configuration."""
        configuration = self.session.call("GET", "operator/raft/configuration")
        return [Peer.model_validate(row) for row in configuration["Servers"]]

    def block(self, path: str, index: int, *, wait: float) -> Answer:
        """Send a blocking query to a path below `/v1/`."""
        return self.session.block(path, index, wait=wait)
