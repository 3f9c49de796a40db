"""The page Evolution: candidates as a graph, and the decision of a person."""

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import httpx2
import pytest
from playwright.sync_api import Page, expect

from prompt_engineering.archive import Archive, Candidate, CaseScore
from prompt_engineering.archive_server import server_of
from prompt_engineering.campaign import Proposal, Settings
from prompt_engineering.gate import Gate, Pair
from prompt_engineering.genome import Genome, diff_of
from prompt_engineering.regret import LivePair, Regret
from tests.integration.agent.evolution.conftest import SEED, system_of, write_classify
from tests.ui.conftest import Visitor, faults

PROMPT = "You answer questions.\nYou write long sentences."
BETTER = "You answer questions."
ATTACK = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PAN = """async () => {
  const graph = document.querySelector("evolution-graph")
  document.querySelector("[data-graph-tool=plus]").click()
  await new Promise(requestAnimationFrame)
  const changed = new Set()
  const note = (records) => records.forEach((one) => changed.add(one.target))
  const observer = new MutationObserver(note)
  observer.observe(graph, { subtree: true, childList: true, attributes: true, characterData: true })
  for (let step = 0; step < 20; step++) {
    const way = { deltaX: 9, deltaY: 5, cancelable: true }
    graph.querySelector(".graph-frame").dispatchEvent(new WheelEvent("wheel", way))
    await new Promise(requestAnimationFrame)
  }
  return changed.size
}"""


def archive_in(state: Path, count: int = 3) -> Archive:
    """A campaign with its proposal, as a campaign writes it."""
    archive = Archive(state / "evolution" / "campaigns" / "answer-001")
    genome = Genome(prompt="answer", tags=("answer",), text=PROMPT)
    rng = random.Random(1)
    archive.write("campaign", Settings(
        campaign="answer-001", created="2027-01-01T00:00:00Z", genome=genome,
        splits={"learn": (), "select": ("case-1",), "gate": ("case-2",)},
        split_hashes={}, budget=1000,
    ))  # fmt: skip
    score = CaseScore(runs=1, run_ids=("r1",), message=f"wrong {ATTACK}")
    archive.save(Candidate(id="c00000", genome=genome, status="finished", select={"case-1": score}))
    better = genome.model_copy(update={"text": BETTER})
    archive.save(Candidate(
        id="c00001", genome=better, parents=("c00000",), generation=1, origin="drop",
        diff=diff_of(PROMPT, BETTER), rationale=f"Shorter. {ATTACK}", status="finished",
        select={"case-1": CaseScore(runs=1, passes=1, run_ids=("r2",))},
    ))  # fmt: skip
    for number in range(2, count):
        parent = archive.candidates[rng.randrange(number)]
        archive.save(Candidate(
            id=f"c{number:05}", genome=genome, parents=(parent.id,), origin="move",
            generation=parent.generation + 1, rationale="Move a line.", status="rejected",
            reason="The text is almost the same as that of another candidate.",
        ))  # fmt: skip
    gate = Gate(candidate="c00001", cases=tuple(f"g{n}" for n in range(40)))
    for case in gate.cases[:8]:
        gate = gate.with_pair(Pair(case=case, old=False, new=True, old_tokens=9, new_tokens=9))
    archive.write("gate", gate)
    evidence = {
        "wins": 8, "losses": 0, "pairs": 8, "e": 25.63, "cost": 1.0, "old_passed": 0,
        "new_passed": 8, "required": [],
    }  # fmt: skip
    archive.write("proposal", Proposal(
        campaign="answer-001", candidate="c00001", prompt="answer", document=better.document,
        base={"tags": ["answer"], "text": PROMPT}, evidence=evidence,
    ))  # fmt: skip
    return archive


@pytest.fixture
def evolution(visitor: Visitor) -> Visitor:
    """A service with the prompt `answer` and a campaign that proposes another text for it."""
    prompts = visitor.house.state / "prompts"
    prompts.mkdir()
    (prompts / "answer.md").write_text(f"---\ntags: [answer]\n---\n{PROMPT}\n", encoding="utf-8")
    archive_in(visitor.house.state)
    visitor.restart()
    return visitor


def live(visitor: Visitor) -> str:
    """The text of the prompt that runs use now."""
    with visitor.house.client() as client:
        return str(client.get("/api/prompts/answer").json()["text"])


@pytest.mark.proves("004-03")
def test_click_on_a_candidate_shows_its_text_rationale_fitness_and_parent(
    evolution: Visitor,
) -> None:
    """All content of the archive is shown as text: a model wrote some of it."""
    page = evolution.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()

    page.locator("[data-testid=candidate][data-id=c00001]").click()

    detail = page.get_by_test_id("candidate-detail")
    expect(detail.get_by_test_id("rationale")).to_have_text(f"Shorter. {ATTACK}")
    expect(detail.get_by_test_id("candidate-about")).to_contain_text("passed: 1 of 1")
    expect(detail.get_by_test_id("diff")).to_contain_text("-You write long sentences.")
    expect(detail.get_by_label("Text of the prompt")).to_have_text(BETTER)
    detail.get_by_test_id("parent").click()
    expect(detail.get_by_role("heading", level=2)).to_have_text("c00000")
    expect(detail.get_by_test_id("case")).to_contain_text(f"wrong {ATTACK}")
    expect(page.locator("[data-pinned=true]")).to_have_count(2)
    assert page.locator("main img, main script").count() == 0
    assert faults(page) == []


@pytest.mark.proves("004-09")
def test_proposal_becomes_live_only_when_a_person_confirms_it(evolution: Visitor) -> None:
    """Cancel changes nothing; the name of the person is recorded; rollback restores the prompt."""
    page = evolution.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()
    expect(page.get_by_test_id("evidence")).to_contain_text("e = 25.63")

    page.get_by_test_id("promote").click()
    page.get_by_test_id("dialog-close").click()
    assert live(evolution) == PROMPT
    page.get_by_test_id("promote").click()
    page.get_by_test_id("by").fill("Ada")
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("evolution-state")).to_contain_text("Live, confirmed by Ada.")
    assert live(evolution) == BETTER
    page.get_by_test_id("rollback").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("promote")).to_be_visible()
    assert live(evolution) == PROMPT


def test_page_proposes_the_rollback_of_a_prompt_that_is_worse_in_live_runs(
    evolution: Visitor,
) -> None:
    """The counts of the live runs are shown, and the decision is the person's."""
    with evolution.house.client() as client:
        promotion = client.post("/api/evolution/answer-001/promote", json={"by": "Ada"}).json()
    known = {name: promotion[name] for name in ("prompt", "campaign", "at")}
    regret = Regret.model_validate(known)
    for number in range(5):
        pair = LivePair(run=f"r{number}", old_run=f"o{number}", new=False, old=True)
        regret = regret.with_pair(pair)
    file = evolution.house.state / "evolution" / "regret" / "answer.json"
    file.parent.mkdir()
    file.write_text(regret.model_dump_json())
    page = evolution.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()

    expect(page.get_by_test_id("regret")).to_contain_text("5 only with the old one); e = 0.0312.")
    expect(page.get_by_test_id("regret")).to_contain_text("Rollback is proposed")
    assert faults(page) == []
    assert live(evolution) == BETTER
    page.get_by_test_id("rollback").click()
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("promote")).to_be_visible()
    expect(page.get_by_test_id("regret")).to_have_count(0)
    assert live(evolution) == PROMPT


def test_promoted_prompt_survives_a_restart_and_shields_the_stored_one(evolution: Visitor) -> None:
    """The layer is a file; the prompt below it cannot change while it is live."""
    with evolution.house.client() as client:
        client.post("/api/evolution/answer-001/promote", json={"by": "Ada"}).raise_for_status()
    evolution.restart()

    assert live(evolution) == BETTER
    with evolution.house.client() as client:
        document = {"document": "---\ntags: [answer]\n---\nOther.\n"}
        refused = client.put("/api/prompts/answer", json=document)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "prompt_promoted")
        client.delete("/api/evolution/promotions/answer").raise_for_status()
        client.put("/api/prompts/answer", json=document).raise_for_status()
        outdated = client.post("/api/evolution/answer-001/promote", json={"by": "Ada"})
        assert outdated.status_code == 409
        assert outdated.json()["error"]["code"] == "proposal_outdated"


def test_pan_of_five_hundred_candidates_changes_none_of_them(evolution: Visitor) -> None:
    """Only their common parent moves; the benchmark `web.evolution` measures a frame."""
    archive_in(evolution.house.state, 500)
    page = evolution.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()
    expect(page.get_by_test_id("candidate")).to_have_count(500)

    assert 0 < page.evaluate(PAN) < 5


@pytest.mark.proves("004-03")
def test_archive_server_shows_the_same_page_and_json_without_an_instance(
    evolution: Visitor,
) -> None:
    """A copied archive can be looked at anywhere, and nothing can be decided there."""
    folder = evolution.house.state / "evolution" / "campaigns"
    with server_of(folder) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            assert_same_json(evolution, address)
            assert_shown_alone(evolution, address)
        finally:
            server.shutdown()
            thread.join()
    assert not thread.is_alive()


def assert_same_json(visitor: Visitor, address: str) -> None:
    """Compare what both servers say of the campaign."""
    path = "/api/evolution/answer-001"
    with visitor.house.client() as client:
        expected = client.get(path).json()
    with httpx2.Client(base_url=address, trust_env=False) as alone:
        assert alone.get(path).json() == expected
        assert alone.get("/api/evolution/nosuch").status_code == 404
        assert alone.get("/static/../app.py").status_code == 404
        assert alone.post(f"{path}/promote").status_code == 501


def assert_shown_alone(visitor: Visitor, address: str) -> None:
    """Open the page of the archive server, whose address is none of the visited service."""
    page: Page = visitor.open()
    page.goto(address)
    page.locator("[data-testid=candidate][data-id=c00001]").click()
    expect(page.get_by_test_id("rationale")).to_have_text(f"Shorter. {ATTACK}")
    expect(page.get_by_test_id("promote")).to_have_count(0)
    visitor.abroad.clear()


@pytest.fixture
def held() -> Iterator[Event]:
    """The model answers runs of the first prompt after this event."""
    event = Event()
    yield event
    event.set()


@pytest.fixture
def classify(visitor: Visitor, held: Event) -> Visitor:
    """A service with a prompt, its workflow and cases, and no campaign."""
    write_classify(visitor.house)
    model = visitor.house.model
    sentences = model.when(lambda request: "full sentences" in system_of(request))
    sentences.say("It is sweet.", held=held)
    model.when(lambda request: "fruit is" in system_of(request)).say("sweet")
    visitor.restart()
    return visitor


def begin(page: Page, budget: str) -> None:
    """Fill in the form of a new campaign, and ask for its cost."""
    page.get_by_test_id("campaign-new").click()
    page.get_by_test_id("campaign-prompt").select_option("classify")
    page.get_by_test_id("campaign-budget").fill(budget)
    page.get_by_test_id("campaign-candidates").fill("3")
    page.get_by_test_id("campaign-seed").fill(str(SEED))
    assert faults(page) == []
    page.get_by_test_id("dialog-cost").click()


def test_person_starts_pauses_and_resumes_a_campaign(classify: Visitor, held: Event) -> None:
    """Budget and cost are shown before anything runs; the page follows the campaign to its end."""
    page = classify.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()
    expect(page.get_by_test_id("empty")).to_contain_text("No campaigns yet")

    begin(page, "50000")
    expect(page.get_by_test_id("campaign-cost")).to_contain_text(
        "At most 15 runs of the search and 80 of the gate."
    )
    expect(page.get_by_test_id("campaign-cost")).to_contain_text("the budget is 50000.")
    page.get_by_test_id("dialog-close").click()
    expect(page.get_by_test_id("dialog")).to_have_count(0)
    assert not (classify.house.state / "evolution" / "campaigns").exists()

    begin(page, "50000")
    page.get_by_test_id("dialog-confirm").click()
    state = page.get_by_test_id("campaign-state")
    expect(state).to_have_text("The campaign is running.")
    assert faults(page) == []
    page.get_by_test_id("campaign-pause").click()
    expect(state).to_have_text("The campaign is paused.")
    held.set()
    page.get_by_test_id("campaign-resume").click()

    expect(state).to_have_text("The campaign has ended.")
    expect(page.get_by_test_id("evidence")).to_contain_text("8 only the new one")
    expect(page.get_by_test_id("promote")).to_be_visible()
    expect(page.get_by_test_id("campaign-stop")).to_have_count(0)


def test_person_stops_a_campaign_for_ever(classify: Visitor) -> None:
    """The page asks first; a refused form says why and stays open."""
    page = classify.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-evolution").click()
    page.get_by_test_id("campaign-new").click()
    page.get_by_test_id("campaign-prompt").select_option("agent")
    file = classify.house.state / "evolution" / "cases" / "fruits.yaml"
    cases = file.read_text()
    file.unlink()
    page.get_by_test_id("dialog-cost").click()
    expect(page.get_by_test_id("campaign-fault")).to_contain_text("Add cases")
    page.get_by_test_id("dialog-close").click()
    file.write_text(cases)

    begin(page, "50000")
    page.get_by_test_id("dialog-confirm").click()
    page.get_by_test_id("campaign-stop").click()
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("campaign-state")).to_have_text("The campaign was stopped.")
    expect(page.get_by_test_id("campaign-resume")).to_have_count(0)
