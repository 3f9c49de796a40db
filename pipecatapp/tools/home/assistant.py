"""The HTTP API of a Home Assistant, as far as it is needed to connect it to Hearth.

See https://developers.home-assistant.io/docs/api/rest. Integrations are added by config flows:
forms that are answered step by step, as on its page.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

SECONDS: Final = 10.0
FLOW_SECONDS: Final = 90.0
"""Home Assistant calls the model during a step of a flow; a small machine loads it first."""
FLOWS: Final = "/api/config/config_entries/flow"
OPTION_FLOWS: Final = "/api/config/config_entries/options/flow"
ENTRIES: Final = "/api/config/config_entries/entry"
RUNNING: Final = "API running."
UNAUTHORIZED: Final = "401"
"""Beginning of the text with which it refuses a token."""

Json = dict[str, Any]


class HomeProblem(Exception):
    """Home Assistant cannot be used; the message says why and what to do."""


class FlowRefused(HomeProblem):
    """A step of a config flow was refused; `reason` is Home Assistant's word for it."""

    def __init__(self, integration: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Home Assistant does not add {integration}: {reason}.")


@dataclass(frozen=True)
class About:
    """Facts about a Home Assistant."""

    version: str
    language: str
    name: str


class HomeAssistant:
    """Sends requests with a long-lived access token. Every method raises `HomeProblem`."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url = http, url

    async def about(self) -> About:
        """Return its version; checks that it is a Home Assistant and that it accepts the token."""
        answer = await self._send("GET", "/api/")
        if not isinstance(answer, dict) or answer.get("message") != RUNNING:
            raise _not_one(self._url)
        config = await self._send("GET", "/api/config")
        return About(
            str(config.get("version", "")),
            str(config.get("language", "")),
            str(config.get("location_name", "")),
        )

    async def integrations(self) -> frozenset[str]:
        """Return the integrations that it can add; only an administrator may ask."""
        return frozenset(await self._send("GET", "/api/config/config_entries/flow_handlers"))

    async def entries(self, integration: str) -> list[Json]:
        """Return the entries of an integration, with `entry_id`, `title` and `state`."""
        found: list[Json] = await self._send("GET", f"{ENTRIES}?domain={integration}")
        return found

    async def add(self, integration: str, *steps: Mapping[str, Any]) -> str:
        """Add an integration by its config flow and return the id of the entry.

        Args:
            integration: Its name, such as `llama_cpp`.
            steps: The input of each form, in order.

        Raises:
            FlowRefused: A step was refused; nothing was added.
        """
        result = await self._flow(FLOWS, {"handler": integration}, integration, steps)
        if result.get("type") != "create_entry":
            raise FlowRefused(integration, "it asks for more than is known")
        entry: str = result["result"]["entry_id"]
        return entry

    async def set_options(self, entry: str, options: Mapping[str, Any]) -> None:
        """Answer the form with the options of an entry."""
        await self._flow(OPTION_FLOWS, {"handler": entry}, "these options", [options])

    async def remove(self, entry: str) -> bool:
        """Remove an entry; False if it was removed already."""
        answer = await self._request("DELETE", f"{ENTRIES}/{entry}")
        if answer.status_code == 404:
            return False
        self._json(answer)
        return True

    async def say(self, text: str, agent: str = "") -> str:
        """Say a sentence to a conversation agent, by default to its own, and return the answer."""
        body = {"text": text} | ({"agent_id": agent} if agent else {})
        answer = await self._send("POST", "/api/conversation/process", body, seconds=FLOW_SECONDS)
        speech: str = answer["response"]["speech"]["plain"]["speech"]
        return speech

    async def states(self, domain: str) -> dict[str, str]:
        """Return the state of each entity of a domain, by its id."""
        found = await self._send("GET", "/api/states")
        return {
            one["entity_id"]: one["state"]
            for one in found
            if one["entity_id"].startswith(f"{domain}.")
        }

    async def _flow(
        self,
        path: str,
        begin: Mapping[str, Any],
        what: str,
        steps: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]],
    ) -> Json:
        """Answer the forms of a flow; one that is not finished is ended."""
        result: Json = await self._send("POST", path, begin)
        _check(what, result)
        for step in steps:
            address = f"{path}/{result['flow_id']}"
            result = await self._send("POST", address, step, seconds=FLOW_SECONDS)
            if result.get("type") == "form" and result.get("errors"):
                await self._request("DELETE", address)
            _check(what, result)
        if result.get("type") == "form":
            await self._request("DELETE", f"{path}/{result['flow_id']}")
        return result

    async def _send(
        self, method: str, path: str, body: Any = None, *, seconds: float = SECONDS
    ) -> Any:
        return self._json(await self._request(method, path, body, seconds=seconds))

    async def _request(
        self, method: str, path: str, body: Any = None, *, seconds: float = SECONDS
    ) -> httpx2.Response:
        try:
            return await self._http.request(
                method, f"{self._url}{path}", json=body, timeout=httpx2.Timeout(seconds, connect=5)
            )
        except httpx2.TimeoutException as error:
            raise HomeProblem(
                f"Home Assistant at {self._url} did not answer within {seconds:g} s. Check that it "
                "is running, and try again."
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise HomeProblem(
                f"There is no connection to Home Assistant at {self._url}. Check the address and "
                f"that it is running. Details: {str(error) or type(error).__name__}"
            ) from error

    def _json(self, answer: httpx2.Response) -> Any:
        if answer.status_code == 401 and not answer.text.startswith(UNAUTHORIZED):
            raise _not_one(self._url)
        if answer.status_code == 401:
            raise HomeProblem(
                "Home Assistant refused the token. Create a long-lived access token in your "
                "profile there, under Security, as a user who is an administrator."
            )
        if answer.status_code == 403:
            raise HomeProblem(
                "The user of the token is not an administrator of Home Assistant. Create the token "
                "as an administrator."
            )
        try:
            body = answer.json()
        except ValueError as error:
            raise _not_one(self._url) from error
        if not answer.is_success:
            reason = body.get("message") if isinstance(body, dict) else None
            raise HomeProblem(
                f"Home Assistant refused a request (HTTP {answer.status_code}): "
                f"{reason or 'it gives no reason'}."
            )
        return body


def _not_one(url: str) -> HomeProblem:
    return HomeProblem(
        f"The server at {url} is not a Home Assistant. Use the address of its page, such as "
        "http://homeassistant.local:8123."
    )


def _check(what: str, result: Json) -> None:
    """Raise `FlowRefused` for a flow that has ended without an entry, or a form with errors."""
    if result.get("type") == "abort":
        raise FlowRefused(what, str(result.get("reason")))
    if result.get("errors"):
        raise FlowRefused(what, ", ".join(map(str, result["errors"].values())))


@asynccontextmanager
async def connected(url: str, token: str, tls: ssl.SSLContext) -> AsyncIterator[HomeAssistant]:
    """A Home Assistant by its address, such as `http://homeassistant.local:8123`.

    Redirects are not followed: the token is sent to this address only.
    """
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, verify=tls, trust_env=False) as http:
        yield HomeAssistant(http, url.rstrip("/"))
