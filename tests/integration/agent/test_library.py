"""What people keep in the state directory."""

from tests.integration.agent.conftest import House

CHEF = """
kind: workflow
id: cook
inputs: {messages: messages}
steps:
  - id: answer
    use: llm
    model: default
    prompt: [chef]
    with: {messages: "{{ inputs.messages }}"}
outputs: {text: "{{ answer.text }}"}
"""


def test_workflow_and_prompt_of_a_person_are_offered_at_the_next_start(empty_house: House) -> None:
    """A house is not the same as the next one; its documents survive an update of Hearth."""
    for folder, name, text in (
        ("workflows", "cook.yaml", CHEF),
        ("workflows", "torn.yaml", "kind: workflow\nid: [torn"),
        ("prompts", "chef.md", "---\ntags: [chef]\n---\nYou are a cook who wastes nothing.\n"),
    ):
        (empty_house.state / folder).mkdir(exist_ok=True)
        (empty_house.state / folder / name).write_text(text, encoding="utf-8")

    with empty_house.running(), empty_house.client() as client:
        models = [model["id"] for model in client.get("/v1/models").json()["data"]]
        answer = empty_house.ask("What shall I do with stale bread?", model="workflow/cook")

    assert "workflow/cook" in models
    assert answer.status_code == 200
    system = empty_house.model.requests[0].body["messages"][0]
    assert system["content"].startswith("You are a cook who wastes nothing.")


def test_workflow_that_cannot_run_is_told_when_somebody_asks_it(empty_house: House) -> None:
    """It does not keep the service from starting, and it is not silent either."""
    (empty_house.state / "workflows").mkdir()
    text = CHEF.replace("use: llm", "use: lmm")
    (empty_house.state / "workflows" / "cook.yaml").write_text(text, encoding="utf-8")

    with empty_house.running():
        answer = empty_house.ask("hello", model="workflow/cook")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_document")
    assert "llm" in answer.json()["error"]["message"]
