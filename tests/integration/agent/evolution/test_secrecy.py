"""What candidates and the model that writes them can see of the cases."""

import json

from prompt_engineering.cases import read_cases
from prompt_engineering.opening import campaign_of
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import (
    archive_folder,
    client_of,
    options_of,
    request_text,
)

MUTATION = "Improve the system prompt below"


async def test_gate_cases_are_in_no_candidate_and_no_request_to_the_mutator(
    started: House,
) -> None:
    """A gate is worth nothing when the search has seen its cases."""
    answer = {"rationale": "Sentences fail.", "prompt": "Decide whether the fruit is sweet."}
    started.model.when(MUTATION).say(json.dumps(answer))
    async with client_of(started) as client:
        campaign = await campaign_of(
            client, options_of(started, model="scripted", candidates=6, seed=1)
        )
        await campaign.run()

    gate = campaign.settings.splits["gate"]
    hidden = [request_text(int(id.removeprefix("fruit-"))).split() for id in gate]
    words = {word for request in hidden for word in request}
    files = [file.read_text() for file in archive_folder(started).glob("candidates/*.json")]
    bodies = [request.body for request in started.model.requests]
    asked = [str(body) for body in bodies if MUTATION in str(body)]
    assert len(files) == 6
    assert asked
    assert any("It is sweet." in text for text in asked)
    for text in (*files, *asked):
        assert not words.intersection(text.replace('"', " ").split())
    used = {id for one in campaign.archive.candidates for id in (*one.learn, *one.select)}
    assert not used.intersection(gate)


async def test_verbatim_copy_of_a_case_is_rejected(started: House) -> None:
    """The model copies a request that it was shown into the prompt: it never runs."""
    (cases,) = [read_cases([started.state / "evolution" / "cases"])]
    async with client_of(started) as client:
        options = options_of(started, model="scripted", candidates=4, seed=1)
        campaign = await campaign_of(client, options)
        learn = campaign.settings.splits["learn"]
        copied = next(str(case.inputs["text"]) for case in cases if case.id == learn[0])
        answer = {"rationale": "Copied.", "prompt": f"The fruit is sweet when it is {copied}."}
        started.model.when(MUTATION).say(json.dumps(answer))

        await campaign.run()

    copies = [one for one in campaign.archive.candidates if copied in one.genome.text]
    assert copies
    assert {one.status for one in copies} == {"rejected"}
    assert all(one.reason.startswith("The text copies a case") for one in copies)
    assert not any(one.select for one in copies)
