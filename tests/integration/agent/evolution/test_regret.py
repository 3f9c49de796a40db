"""Live runs after a promotion, compared with the prompt before it."""

from typing import Any

import pytest

from pipecatapp.client import Client
from prompt_engineering.archive import InvalidArchive
from prompt_engineering.cases import Case, Check, case_file
from prompt_engineering.opening import campaign_of
from prompt_engineering.regret import common_checks, is_sampled, read_regret, watch_promotions
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import (
    PROMPT,
    WORKFLOW,
    client_of,
    options_of,
    system_of,
)

EVERY = 1
NOTE = """  - {id: note, use: note.save, with: {text: "{{ reply.text }}"}}
outputs:"""


async def promoted(house: House, client: Client) -> None:
    """Run a campaign, and let a person make its proposal live."""
    await (await campaign_of(client, options_of(house))).run()
    await client.request("POST", "/api/evolution/classify-001/promote", {"by": "Ada"})


async def live_run(client: Client, text: str, workflow: str = "classify", **more: Any) -> str:
    """Run a workflow as a person does."""
    body = {"workflow": workflow, "inputs": {"text": text}, **more}
    run = str((await client.request("POST", "/api/runs", body))["run"])
    async for _ in client.events(run):
        pass
    return run


def worse_from_now_on(house: House) -> None:
    """The model now answers the old prompt in one word, and the promoted one in a sentence."""
    rules = house.model._rules
    rules.clear()
    house.model.when(lambda request: "full sentences" in system_of(request)).say("sweet")
    house.model.when(lambda request: "fruit is" in system_of(request)).say("It is sweet.")


async def test_prompt_that_is_worse_in_live_runs_leads_to_a_proposed_rollback(
    started: House,
) -> None:
    """Five runs that only the old prompt passes: e = 1/32. Only a person rolls it back."""
    async with client_of(started) as client:
        await promoted(started, client)
        folder = started.state / "evolution"
        worse_from_now_on(started)
        runs = [await live_run(client, f"A fig {number}?") for number in range(6)]
        before = (await client.request("GET", "/api/prompts/classify"))["text"]

        (regret,) = await watch_promotions(client, folder, share=EVERY)

        assert [pair.run for pair in regret.pairs] == runs[:5]
        assert [(pair.new, pair.old) for pair in regret.pairs] == [(False, True)] * 5
        assert (regret.evidence.losses, regret.evidence.e) == (5, 0.0312)
        assert regret.decision == "roll_back"
        old_run = await client.request("GET", f"/api/runs/{regret.pairs[0].old_run}")
        assert (old_run["caller"], old_run["inputs"]) == ("evolution", {"text": "A fig 0?"})
        assert PROMPT.split("\n")[1] in str(old_run["steps"][0]["prompt"])
        assert await watch_promotions(client, folder, share=EVERY) == []
        shown = (await client.request("GET", "/api/evolution"))["regrets"]
        assert shown["classify"]["decision"] == "roll_back"
        assert (await client.request("GET", "/api/prompts/classify"))["text"] == before

        await client.request("DELETE", "/api/evolution/promotions/classify")

        assert (await client.request("GET", "/api/prompts/classify"))["text"] == PROMPT
        assert (await client.request("GET", "/api/evolution"))["regrets"] == {}


async def test_good_prompt_stays_and_each_run_is_compared_once(started: House) -> None:
    """What was compared before is not run again; measured runs are not compared at all."""
    async with client_of(started) as client:
        await promoted(started, client)
        folder = started.state / "evolution"
        await live_run(client, "A fig?")
        (first,) = await watch_promotions(client, folder, share=EVERY)
        await live_run(client, "A date?")

        (second,) = await watch_promotions(client, folder, share=EVERY)

    assert (first.evidence.pairs, second.evidence.pairs) == (1, 2)
    assert (second.evidence.wins, second.decision) == (2, "open")
    assert read_regret(folder, "classify") == second


async def test_runs_with_effects_in_conversations_or_of_other_prompts_are_not_repeated(
    classify_house: House,
) -> None:
    """Such a run would change something, or would not be the same."""
    house = classify_house
    noting = WORKFLOW.replace("id: classify", "id: noting").replace("outputs:", NOTE)
    (house.state / "workflows" / "noting.yaml").write_text(noting)
    house.model.when(lambda _request: True).say("Yes.")
    with house.running():
        async with client_of(house) as client:
            await promoted(house, client)
            await live_run(client, "A fig?", conversation="talk")
            await live_run(client, "A date?", "noting")
            await live_run(client, "A plum?", "agent-turn")
            notes = (await client.request("GET", "/api/notes"))["notes"]
            asked = len(house.model.requests)

            assert await watch_promotions(client, house.state / "evolution", share=EVERY) == []

            assert (await client.request("GET", "/api/notes"))["notes"] == notes != []
    assert len(house.model.requests) == asked


def test_one_of_ten_runs_is_sampled() -> None:
    """The hash of the id decides, so every watch takes the same runs."""
    sampled = [is_sampled(f"run-{number}") for number in range(10_000)]

    assert 900 < sum(sampled) < 1100
    assert sampled == [is_sampled(f"run-{number}") for number in range(10_000)]


def test_live_runs_are_judged_by_what_all_cases_of_the_workflow_ask_for(tmp_path: Any) -> None:
    """The right answer of one case says nothing about another request."""
    form = Check(max_words=1)
    cases = [
        Case(id=f"c-{answer}", workflow="w", inputs={"text": answer}, checks=(form, check))
        for answer in ("sweet", "sour")
        for check in [Check(equals=answer)]
    ]
    (tmp_path / "cases.yaml").write_text(case_file(cases))

    assert common_checks(tmp_path, "w") == (form,)
    assert common_checks(tmp_path, "other") == (Check(ends="done"),)


def test_damaged_comparison_is_named(tmp_path: Any) -> None:
    """It is not silently begun again."""
    (tmp_path / "regret").mkdir()
    (tmp_path / "regret" / "classify.json").write_text("{")

    with pytest.raises(InvalidArchive, match=r"classify\.json is not valid"):
        read_regret(tmp_path, "classify")
