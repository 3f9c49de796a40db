"""The tool `doc.review` and the shipped workflows, with a model behind a real gateway."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.application.documents.files import Library
from pipecatapp.tools import TOOLS
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.fixed import FixedPlaces
from pipecatapp.tools.model.facts import ExpertFacts
from pipecatapp.workflow import Context, Engine, ModelFacts, RunResult, ToolFailed
from tests.integration.agent.code.conftest import commit, git, repository
from tests.integration.gateway.conftest import KEY, Lab
from tests.integration.tools.conftest import Opened
from tests.support.pdfs import PLAIN, pdf

REVIEW = TOOLS["doc.review"]
SHIPPED = Path(__file__).parents[4] / "pipecatapp" / "workflows"
GOOD = json.dumps({"ok": True, "problems": []})
CUT = json.dumps({"ok": False, "problems": [{"problem": "A word is cut off.", "where": "top"}]})
DRAFT = "# Tea\n\nDear \\{\\{ name \\}\\}, tea is dear.\n"
FINAL = "# Tea\n\nDear Ada, tea is dear.\n\n| Tea | Price |\n|---|---|\n| green | 3 |\n"


class House:
    """A gateway with one expert that reads pictures and one that does not."""

    def __init__(self, stack: ExitStack, folder: Path, opened: Opened) -> None:
        folder.mkdir()
        lab, self.opened, self.folder = Lab(stack, folder), opened, folder
        self.eyes, self.small = ScriptedModel("eyes"), ScriptedModel("small")
        with_eyes = lab.expert(self.eyes, "eyes", vision=True)
        self.seeing = f"{lab.gateway(with_eyes, lab.expert(self.small)).base_url}/v1"
        self.blind = f"{lab.gateway(lab.expert(self.small)).base_url}/v1"

    @asynccontextmanager
    async def engine(self, address: str, name: str) -> AsyncIterator[Engine]:
        """Open an engine with a shipped workflow and a gateway."""
        document = (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")
        async with (
            httpx2.AsyncClient(trust_env=False) as http,
            ModelClient(address, KEY) as client,
        ):
            places = FixedPlaces(dict, gateway=address, http=http)
            facts = ExpertFacts(Directory(places, key=KEY, http=http))
            await facts.refresh()
            services = {ModelClient: client, ModelFacts: facts}
            async with self.opened(document, services=services) as engine:
                engine.prompts = Library.shipped().prompts
                yield engine

    async def run(self, address: str, name: str, **inputs: Any) -> RunResult:
        """Run a shipped workflow to its end."""
        async with self.engine(address, name) as engine:
            return await engine.wait(await engine.start(name, inputs))

    def repository(self, *contents: str) -> str:
        """Make a repository with a PDF."""
        root = repository(self.folder / "repo", {"README.md": "x"})
        (root / "a.pdf").write_bytes(pdf(contents))
        commit(root)
        return str(root)


@pytest.fixture
def house(tmp_path: Path, opened: Opened) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(stack, tmp_path / "house", opened)


def pictures_of(model: ScriptedModel) -> list[str]:
    """Return the SHA-256 of each picture that a model was sent."""
    found = []
    for request in model.requests:
        parts = [part for message in request.body["messages"] for part in message["content"]
                 if isinstance(part, dict) and part["type"] == "image_url"]  # fmt: skip
        for part in parts:
            start, _, data = part["image_url"]["url"].partition(",")
            assert start == "data:image/png;base64"
            found.append(hashlib.sha256(base64.b64decode(data)).hexdigest())
    return found


@pytest.mark.proves("001-26")
async def test_visual_check_renders_pages_and_asks_a_model_that_sees(house: House) -> None:
    """Rules see no ugly page; the verdict names the very pictures that the model was shown."""
    house.eyes.when(lambda request: len(house.eyes.requests) == 1).say(GOOD)
    house.eyes.when(lambda request: True).say(CUT)

    result = await house.run(
        house.seeing, "check-pdf",
        repo=house.repository(PLAIN, PLAIN), path="a.pdf", about="A letter to Ada",
    )  # fmt: skip

    assert result.status == "done", result.error
    told = result.outputs
    assert (told["ok"], told["findings"]) == (False, [])
    assert [(one["path"], one["ok"], one["model"]) for one in told["pictures"]] == [
        ("rendered/page-1.png", True, "eyes"), ("rendered/page-2.png", False, "eyes"),
    ]  # fmt: skip
    assert told["problems"] == [
        {"picture": "rendered/page-2.png", "problem": "A word is cut off.", "where": "top"}
    ]
    assert pictures_of(house.eyes) == [one["sha256"] for one in told["pictures"]]
    assert "<about>\nA letter to Ada\n</about>" in json.dumps(
        house.eyes.requests[0].body, ensure_ascii=False
    ).replace("\\n", "\n")
    assert house.small.requests == []
    assert told["text"] == (
        "Findings of the rules: 0; pages: 2. Visual check of 2 of 2 pages; problems: 1."
    )


@pytest.mark.proves("001-26")
async def test_rules_work_without_a_model_that_sees_and_the_reason_is_told(house: House) -> None:
    """Most homes have no such model; a check that was not done must not look like a pass."""
    fault = PLAIN.replace("Plain", "**Plain**")

    result = await house.run(house.blind, "check-pdf", repo=house.repository(fault), path="a.pdf")

    assert result.status == "done", result.error
    assert (result.outputs["ok"], result.outputs["pictures"]) == (False, [])
    assert [one["rule"] for one in result.outputs["findings"]] == ["markdown"]
    assert result.outputs["text"] == (
        "Findings of the rules: 1; pages: 1. No visual check: 'auto' is not a model that reads"
        " pictures (no healthy expert has vision)."
    )
    assert house.small.requests == []


async def test_report_is_written_checked_and_repaired(house: House) -> None:
    """A small model leaves marks of templates in its text; the rules let it mend them."""
    house.small.when("A template was not filled in.").say(FINAL)
    house.small.when("Report on tea").say(DRAFT)
    repo = house.repository(PLAIN)

    result = await house.run(house.blind, "write-report", task="Report on tea", repo=repo)

    assert result.status == "done", result.error
    assert (result.outputs["ok"], result.outputs["pages"]) == (True, 1)
    assert result.outputs["text"] == FINAL
    assert len(house.small.requests) == 2
    names = git(Path(repo), "diff", "--name-only", f"main..{result.outputs['branch']}").split()
    assert names == ["report.pdf", "report.pdf.md"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("a.txt", "is neither PNG nor JPEG"), ("none.png", "No such file"), ("../a", "leads out")],
)
async def test_file_that_is_no_picture_is_sent_to_nobody(
    tmp_path: Path, path: str, reason: str
) -> None:
    """Only pictures of the workspace reach a model, which may be a hosted one."""
    (tmp_path / "a.txt").write_text("secret", encoding="utf-8")

    with pytest.raises(ToolFailed, match=reason):
        await REVIEW.check(Context(workspace=tmp_path), {"pictures": [path]})
