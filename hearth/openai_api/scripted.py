"""`python -m hearth.openai_api.scripted RULES`: a scripted model server in a separate process.

The end-to-end test of a cluster registers it as an expert, so that the requests of "the model" are
known. RULES is a JSON file: a list of `{"when": WORDS, "say": TEXT}`, of `{"when": WORDS, "call":
TOOL, "arguments": {…}}`, and of `{"when_role": "tool", …}` for the answer after a result.
"""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import uvicorn
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from hearth.openai_api.chat import ChatRequest
from hearth.openai_api.scripts import Match
from hearth.openai_api.testing import ScriptedModel
from hearth.service.settings import read_key


class WrittenRule(BaseModel):
    """One rule of the file: what it answers to, and with what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: str | None = None
    when_role: Literal["user", "tool"] | None = None
    say: str | None = None
    call: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_of_each(self) -> "WrittenRule":
        if (self.when is None) == (self.when_role is None):
            raise ValueError("a rule has either `when` or `when_role`")
        if (self.say is None) == (self.call is None):
            raise ValueError("a rule has either `say` or `call`")
        return self

    @property
    def match(self) -> Match:
        """The condition of the rule: words of the last message, or its role."""
        if self.when is not None:
            return self.when
        return self._is_last_role

    def add_to(self, model: ScriptedModel) -> None:
        """Let the model follow it."""
        rule = model.when(self.match)
        if self.call is not None:
            rule.call_tool(self.call, self.arguments)
        else:
            rule.say(self.say or "")

    def _is_last_role(self, request: ChatRequest) -> bool:
        return bool(request.messages) and request.messages[-1].role == self.when_role


RULES: TypeAdapter[list[WrittenRule]] = TypeAdapter(list[WrittenRule])


def main(
    rules: Annotated[Path, typer.Argument(help="JSON file with the rules.")],
    name: Annotated[str, typer.Option(help="The model name in its responses.")] = "scripted",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port to listen on.")] = 8089,
    key_file: Annotated[Path | None, typer.Option(help="File with the key it demands.")] = None,
) -> None:
    """Serve a scripted model until a signal ends it."""
    model = ScriptedModel(name, key=read_key(key_file) if key_file else None)
    for rule in RULES.validate_json(rules.read_bytes()):
        rule.add_to(model)
    uvicorn.run(model.app, host=str(IPv4Address(host)), port=port, log_level="warning")


if __name__ == "__main__":
    typer.run(main)
