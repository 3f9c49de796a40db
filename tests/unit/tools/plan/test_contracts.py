"""The workflows that a coordinator calls are typed: what goes in and what comes out."""

from typing import Any

import pytest

from pipecatapp.application.documents.files import Library
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import InvalidDocument, compile_workflow, load_document

CALL = """
id: caller
steps:
  - id: step
    use: workflow/{name}
    with: {given}
outputs: {{result: {{type: {type}, value: "{{{{ step.{output} }}}}"}}}}
"""
CONTRACTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("code-step", {"goal": "x", "files": ["a"]}, "applied", "boolean"),
    ("debug-step", {"command": "x"}, "ok", "boolean"),
]


def compiled(text: str) -> None:
    library = Library.shipped()
    compile_workflow(
        load_document(text, file="caller.yaml"),
        TOOLS,
        library.prompts.values(),
        workflows=library.workflows,
        roles={"default": "auto"},
    )


@pytest.mark.proves("002-19")
@pytest.mark.parametrize(("name", "given", "output", "type"), CONTRACTS)
def test_call_that_breaks_the_contract_of_coder_or_debugger_does_not_compile(
    name: str, given: dict[str, Any], output: str, type: str
) -> None:
    """A wrong name, a wrong type, a missing input, and an output that there is not."""
    compiled(CALL.format(name=name, given=given, output=output, type=type))
    first = next(iter(given))
    for wrong in ({**given, "nosuch": 1}, {**given, first: 1}, {}):
        with pytest.raises(InvalidDocument):
            compiled(CALL.format(name=name, given=wrong, output=output, type=type))
    with pytest.raises(InvalidDocument, match="nosuch"):
        compiled(CALL.format(name=name, given=given, output="nosuch", type=type))
