"""`/api/keys`: the operations of `hearth keys` over HTTP, for keys with the scope `admin`."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from hearth.service.http_errors import Refused
from moe_gateway.errors import no_admin
from moe_gateway.keys.delegation import Delegation
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.limits import Caller
from moe_gateway.keys.store import (
    KeyStore,
    Limits,
    NameTaken,
    Scope,
    UnknownKey,
    Usage,
    row_of,
    today,
)

Json = dict[str, Any]
Count = Annotated[int, Field(ge=1, le=2**53)]


class KeyLimits(BaseModel):
    """The limits of a key; an absent field means no limit."""

    model_config = ConfigDict(extra="forbid")

    models: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        ["*"], min_length=1, description="Names, or patterns such as `workflow/*`."
    )
    scopes: list[Scope] = Field([Scope.CHAT], min_length=1)
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    tokens_per_day: Count | None = None

    @property
    def limits(self) -> Limits:
        fields = self.model_dump(include={*KeyLimits.model_fields})
        return Limits(
            **{**fields, "models": tuple(self.models), "scopes": tuple(map(str, self.scopes))}
        )


class NewKey(KeyLimits):
    """A key to make."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")


def key_routes(store: KeyStore | None, keyring: Keyring) -> APIRouter:
    """Return the routes that manage keys. A change applies to callers of `keyring` before the
    response is sent. Without a `store` the routes refuse every request."""
    router = APIRouter(prefix="/api/keys", tags=["keys"], dependencies=[Depends(_is_admin)])

    def kept() -> KeyStore:
        if store is None:
            message = "This gateway keeps no keys (setting MOE_GATEWAY_KEY_STORE)."
            raise Refused(404, "no_key_store", message)
        return store

    @router.get("", summary="List the keys with their limits and their usage today")
    async def list_keys() -> Json:
        keys, used = await asyncio.to_thread(lambda: (kept().all(), kept().usage(today())))
        rows = [row_of(key, used.get(key.name, Usage())) for key in keys]
        return {"keys": rows, "as_of": keyring.as_of.isoformat()}

    @router.post("", status_code=201, summary="Create a key, which is returned only once")
    async def add_key(wanted: NewKey) -> Json:
        try:
            add = kept().add
            key = await asyncio.to_thread(add, wanted.name, wanted.limits, keyring.of_house)
        except NameTaken as error:
            raise Refused(409, "name_taken", str(error), param="name") from error
        await keyring.look()
        return {"name": wanted.name, "key": key}

    @router.put("/{name:path}", summary="Change the limits of a key")
    async def limit_key(name: str, wanted: KeyLimits) -> Json:
        await _known(kept().limit, name, wanted.limits)
        await keyring.look()
        return {"name": name, **asdict(wanted.limits)}

    @router.delete("/{name:path}", summary="Revoke a key permanently")
    async def revoke_key(name: str) -> Json:
        await _known(kept().revoke, name)
        await keyring.look()
        return {"name": name, "revoked": True}

    return router


def own_key_routes(agent_keys: Callable[[], list[bytes]]) -> APIRouter:
    """Return the route with which an agent asks what the key of its caller permits.

    `agent_keys` returns the keys with which this gateway calls the agents: they sign the header
    that names the caller in the agent's requests.
    """
    router = APIRouter(tags=["keys"])

    @router.get("/api/keys/self", summary="Show what the key of this request permits")
    async def own_key(request: Request) -> Json:
        caller: Caller = request.state.caller
        limits = caller.limits
        # A key permits its first pattern and scope, so this only counts the request.
        caller.admit(limits.models[0], limits.scopes[0])
        secret = next(iter(agent_keys()), None)
        signed = Delegation(caller.name, 1).signed(secret).decode() if secret else ""
        return {
            "name": caller.name,
            "models": list(limits.models),
            "scopes": list(limits.scopes),
            "caller": signed,
        }

    return router


async def _known(work: Any, *arguments: Any) -> None:
    try:
        await asyncio.to_thread(work, *arguments)
    except UnknownKey as error:
        raise Refused(404, "key_not_found", str(error), param="name") from error


async def _is_admin(request: Request) -> None:
    if not request.state.caller.may_do("admin"):
        raise no_admin()
