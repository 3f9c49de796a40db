"""An agent service with indexed documents, and the real expert for embeddings behind it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from llama_expert.embeddings.app import build_app
from llama_expert.embeddings.settings import Settings
from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.local.conftest import wait_for

KEY: Final = "sk-hearth-services"
EXPERT: Final = "multilingual-e5-small"
GUEST: Final = {"x-hearth-caller": "guest;1;signature"}
DOCUMENTS: Final = {
    "router.md": (
        "# Router manual\n\nThe router connects the house to the network.\n\n"
        "## Factory reset\n\nHold the button on the back for ten seconds until the red light"
        " blinks. All settings are erased.\n\n"
        "## Guest network\n\nVisitors use the network Rosebud, which cannot reach the printer.\n"
    ),
    "heating.md": (
        "# Heizung\n\n## Wartung\n\nDie Heizung wird jedes Jahr im April gewartet, von"
        " Herrn Brandt.\n\n## Störung\n\nBei Fehler E7 fehlt Wasser: am Hahn im Keller auf 1,5"
        " bar auffüllen.\n"
    ),
    "recipes/soup.txt": "Tomato soup\n\nFry two onions, add a kilo of tomatoes and basil.\n",
}


class HomeGateway(ScriptedGateway):
    """A scripted gateway with a real expert for embeddings, at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.embedded: list[dict[str, Any]] = []
        self.refuse: Callable[[list[str]], int] = lambda _texts: 0
        """The status that a list of texts is refused with; 0 to embed it."""
        expert = {"name": EXPERT, "model": EXPERT, "healthy": True, "embeddings": True}
        self.experts = [self.expert, {**expert, "tools": "none"}]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/v1/embeddings":
            await super().__call__(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.json()
        if status := self.refuse(body["input"]):
            await Response('{"error": {"message": "no"}}', status)(scope, receive, send)
            return
        self.embedded.append(body)
        async with httpx2.AsyncClient(timeout=120, trust_env=False) as http:
            key = {"authorization": request.headers["authorization"]}
            answer = await http.post(f"{self.url}/v1/embeddings", json=body, headers=key)
        await Response(answer.content, answer.status_code)(scope, receive, send)

    @property
    def texts(self) -> list[str]:
        """The passages that were embedded."""
        lists = [one["input"] for one in self.embedded if one["input_type"] == "passage"]
        return [text for texts in lists for text in texts]


def write(folder: Path, documents: dict[str, str]) -> Path:
    """Write files below a folder; returns the folder."""
    for path, text in documents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def add(house: House, name: str, *paths: Path, readers: tuple[str, ...] = ()) -> dict[str, Any]:
    """Add a source, and wait until it is indexed."""
    body = {"name": name, "paths": [str(path) for path in paths], "readers": readers}
    with house.client() as client:
        client.post("/api/knowledge", json=body).raise_for_status()
    return indexed(house, name)


def update(house: House, name: str) -> dict[str, Any]:
    """Compare a source with its documents, and wait until it is indexed."""
    with house.client() as client:
        client.post(f"/api/knowledge/{name}/update").raise_for_status()
    return indexed(house, name)


def indexed(house: House, name: str) -> dict[str, Any]:
    """The source, once it is indexed."""
    with house.client() as client:

        def ready() -> dict[str, Any] | None:
            source: dict[str, Any] = client.get(f"/api/knowledge/{name}").raise_for_status().json()
            return source if source["state"] == "ready" else None

        return wait_for(ready, f"{name} is indexed")


def find(house: House, query: str, *, guest: bool = False, **params: Any) -> dict[str, Any]:
    """The result of a search."""
    with house.client() as client:
        answer = client.get(
            "/api/knowledge/search", params={"query": query, **params},
            headers=GUEST if guest else {},
        )  # fmt: skip
        found: dict[str, Any] = answer.raise_for_status().json()
    return found


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The expert for embeddings with its real model."""
    key_file = tmp_path_factory.mktemp("embedder") / "key"
    key_file.write_text(KEY)
    settings = Settings.model_validate({"key_file": key_file})
    health = Health("embeddings", version="test")
    with served(build_app(settings, health, new_registry())) as url:
        wait_for(lambda: health.report().ready, "the model is loaded")
        yield url


@pytest.fixture(scope="module")
def gateway(embedder: str) -> HomeGateway:
    return HomeGateway(embedder)


@pytest.fixture(scope="module")
def home(gateway: HomeGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One agent service for a module."""
    folder = tmp_path_factory.mktemp("home")
    state = folder / "state"
    state.mkdir()
    (state / "key").write_text("sk-hearth-people")
    (state / "service_key").write_text(KEY)
    with served(gateway) as url:
        house = House(state, gateway, url, more={"knowledge_seconds": 3600})
        with house.running():
            yield house


@pytest.fixture(scope="module")
def manuals(home: House, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source `manuals`, which only the built-in key may read."""
    folder = write(tmp_path_factory.mktemp("manuals"), DOCUMENTS)
    add(home, "manuals", folder)
    return folder
