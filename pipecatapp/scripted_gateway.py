"""A scripted model in the place of the gateway, for `hearth workflows test`."""

from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from hearth.openai_api.scripts import Rule
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.application.workflow_tests import Answer


class ScriptedGateway(ScriptedModel):
    """A scripted model at the address of the gateway, with a list of its models."""

    def follow(self, answers: Sequence[Answer]) -> None:
        """Forget the last test, and give these answers."""
        self.reset()
        rules: dict[tuple[str, str], Rule] = {}
        for answer in answers:
            key = (answer.when, answer.model)
            if key not in rules:
                rules[key] = self.when(answer.fits)
            answer.add_to(rules[key])

    def asked(self) -> list[str]:
        """Return the models that were asked, in their order."""
        return [str(one.body["model"]) for one in self.requests if isinstance(one.body, dict)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/api/experts":
            experts = [
                {"name": name, "model": name, "healthy": True, "tools": "native"}
                for name in self.names
            ]
            await JSONResponse({"experts": experts})(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
