"""One call of a tool as a run: the workflow that makes it, and its inputs."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pipecatapp.workflow import InvalidInputs, Tool, ToolFailed
from pipecatapp.workflow.syntax import yaml_of

CALL: Final = "call"
GIVEN: Final = "given"
NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
"""How an output of a workflow may be named."""


class UnknownTool(LookupError):
    """There is no tool of this name; the message names the nearest one."""


def workflow_for(tool: Tool, given: Collection[str]) -> str:
    """Return the YAML of a workflow that calls a tool once with the inputs that `given` names.

    Its one input holds them all, because the inputs of a tool may have names that those of a
    workflow cannot have. Its outputs are those of the tool.
    """
    fields = list(tool.gives.model_fields)
    named = bool(fields) and all(NAME.fullmatch(field) for field in fields)
    outputs = {field: f"{{{{ {CALL}.{field} }}}}" for field in fields} if named else {}
    return yaml_of(
        {
            "id": "tool-" + re.sub(r"[^a-z0-9]+", "-", tool.name).strip("-"),
            "about": f"One call of the tool {tool.name}.",
            "inputs": {GIVEN: {"type": "object", "about": "The inputs of the tool."}},
            "steps": [
                {
                    "id": CALL,
                    "about": tool.about.partition("\n\n")[0].replace("\n", " "),
                    "use": tool.name,
                    "with": {
                        name: f"{{{{ inputs.{GIVEN}[{json.dumps(name)}] }}}}"
                        for name in sorted(given)
                    },
                }
            ],
            "outputs": outputs or {"result": f"{{{{ {CALL} }}}}"},
        }
    )


def inputs_for(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of `workflow_for`; raises `InvalidInputs` if the tool refuses them."""
    try:
        tool.accept(given)
    except ToolFailed as error:
        raise InvalidInputs(str(error)) from error
    return {GIVEN: dict(given)}
