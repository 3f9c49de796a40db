"""Aider's own code against one gateway: prints one JSON object, a key per case.

What the answers must be is asserted by tests/integration/gateway/clients/test_aider.py, which wrote
the script of the model `small`. Settings: OPENAI_API_BASE, OPENAI_API_KEY, and
LITELLM_LOCAL_MODEL_COST_MAP so that it asks nobody else. It works in the current folder.
"""
# mypy: disable-error-code="import-not-found"

import contextlib
import io
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model

FUNCTION = {
    "name": "time_now",
    "description": "The time in a zone.",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
}


def session(*files: str, **fields: Any) -> Coder:
    """A session as the command line makes it, that says yes to everything."""
    screen = InputOutput(yes=True, pretty=False, fancy_input=False, output=io.StringIO())
    return Coder.create(
        main_model=Model("openai/small"), io=screen, fnames=list(files), use_git=False,
        edit_format="diff", map_tokens=0, auto_lint=False, **fields,
    )  # fmt: skip


def edited(*, stream: bool) -> dict[str, Any]:
    """A file that the model wants changed."""
    Path("hello.py").write_text('print("hello")\n')
    coder = session("hello.py", stream=stream)
    coder.run("greet the town")
    return {
        "file": Path("hello.py").read_text(),
        "edited": sorted(coder.aider_edited_files),
    }


def called() -> Any:
    """Aider asks for one function by name, and reads the call off the answer."""
    asked = [{"role": "user", "content": "what time"}]
    _, answer = Model("openai/small").send_completion(asked, [FUNCTION], stream=False)
    calls = answer.choices[0].message.tool_calls
    return [json.loads(call.function.arguments) for call in calls]


def shown(text: str) -> str:
    """What a person reads on the screen when it goes wrong."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        session(stream=True).run(text)
    return said.getvalue()


def broken() -> dict[str, Any]:
    """The answer breaks off in the middle of an edit, and the next one is refused."""
    Path("hello.py").write_text('print("hello")\n')
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        session("hello.py", stream=True).run("break the town")
    return {"screen": said.getvalue(), "file": Path("hello.py").read_text()}


class Impatient(io.StringIO):
    """The screen of a person who presses Ctrl-C at the first word."""

    def write(self, text: str) -> int:
        if "once" in text:
            raise KeyboardInterrupt
        return super().write(text)


def interrupted() -> list[str]:
    """What the session remembers of the answer."""
    with contextlib.redirect_stdout(Impatient()):
        coder = session(stream=True)
        coder.run("a story without end")
    return [str(one["content"]) for one in coder.cur_messages + coder.done_messages]


def asked(text: str) -> Any:
    """The way of commit messages and summaries: whole answers, with aider's own retries."""
    return Model("openai/small").simple_send_with_retries([{"role": "user", "content": text}])


def run(case: Any) -> Any:
    """Its result; what it writes for people is not mixed with ours."""
    with contextlib.redirect_stdout(io.StringIO()):
        return case()


if __name__ == "__main__":
    results = {
        "version": version("aider-chat"),
        "litellm": version("litellm"),
        "streamed": run(lambda: edited(stream=True)),
        "whole": run(lambda: edited(stream=False)),
        "called": run(called),
        "retried": run(lambda: asked("later")),
        "wrong": shown("wrong"),
        "broken": broken(),
        "interrupted": interrupted(),
    }
    json.dump(results, sys.stdout)
