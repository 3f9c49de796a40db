"""`hearth run`: run a workflow and print its text as it comes."""

import asyncio
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pipecatapp.cli.desk import Desk, open_desk
from pipecatapp.cli.failure import CANCELLED, DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_answers, parse_inputs
from pipecatapp.cli.options import (
    AllowOption,
    JsonOption,
    LayersOption,
    Named,
    SelectOption,
    StateOption,
    WorkflowArgument,
)
from pipecatapp.cli.start import Start
from pipecatapp.workflow import NotAsked, UnknownRun, WrongAnswer

CODES = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}
ASKING: Final = "asking"


def run_workflow(
    workflow: WorkflowArgument,
    given: Annotated[
        list[str],
        typer.Option(
            "--input", "-i", metavar="NAME=VALUE", help="An input; VALUE @FILE reads a file."
        ),
    ] = [],  # noqa: B006
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Go on with this conversation.")
    ] = None,
    answers: Annotated[
        list[str],
        typer.Option(
            "--answer", metavar="NODE=VALUE", help="The answer to the question of a node."
        ),
    ] = [],  # noqa: B006
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    allow: AllowOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow; its text is printed as it comes. Ctrl-C cancels the run.

    In a terminal its questions are asked here; elsewhere one without an `--answer` fails.
    Exit codes: 0 done, 1 failed, 2 invalid document or inputs, 130 cancelled.
    """
    asking = sys.stdin.isatty() and not as_json
    told = _Told(given, answers, conversation, asking=asking)
    finish(_run(Named(workflow, layers, select, allow), told, state_dir, as_json=as_json))


@dataclass(frozen=True)
class _Told:
    """What the command line says of the run."""

    given: list[str]
    answers: list[str]
    conversation: str | None
    asking: bool


async def _run(named: Named, told: _Told, state_dir: Path | None, *, as_json: bool) -> int:
    document = named.document()
    async with open_desk(state_dir) as desk:
        planned = await desk.plan(document)
        if planned["diagnostics"]:
            raise CommandFailed(planned["text"], code=INVALID)
        inputs = parse_inputs(told.given, planned["inputs"])
        answers = parse_answers(told.answers)
        start = Start(document, inputs, told.conversation, answers, told.asking)
        run = await desk.start(start)
        return await to_the_end(desk, run, asking=told.asking, as_json=as_json)


async def to_the_end(desk: Desk, run: str, *, asking: bool, as_json: bool) -> int:
    """Print a run until it ends; gives the exit code."""
    printer = Printer(silent=as_json)
    await _follow(desk, run, printer, asking=asking)
    ended = await desk.show(run)
    if as_json:
        typer.echo(json.dumps(summary(ended), indent=2, ensure_ascii=False))
    else:
        printer.end(ended)
    return CODES[ended["status"]]


async def _follow(desk: Desk, run: str, printer: "Printer", *, asking: bool) -> None:
    """Print until the run ends. The first Ctrl-C cancels the run, a second one leaves at once."""
    loop, beside = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        beside.add(loop.create_task(desk.cancel(run)))

    loop.add_signal_handler(signal.SIGINT, cancel)
    try:
        async for event in desk.follow(run):
            printer.take(event)
            if asking and event["type"] == "node.waiting":
                beside.add(loop.create_task(ask_here(desk, run, event), name=ASKING))
        for task in beside:
            if task.get_name() == ASKING:
                task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def ask_here(desk: Desk, run: str, event: dict[str, Any]) -> None:
    """Print the question of a `node.waiting` event and pass the line on that is typed.

    An answer that does not fit is told, and asked for again. Who answers elsewhere, on the web
    page for one, ends the question here too.
    """
    question = event["data"]["question"]
    typer.echo(f"\n{question['text']}", err=True)
    if question.get("choices"):
        typer.echo(f"One of: {', '.join(question['choices'])}", err=True)
    while True:
        typer.echo("> ", nl=False, err=True)
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        try:
            await desk.answer(run, event["path"], line.strip())
        except (WrongAnswer, CommandFailed) as error:
            typer.echo(str(error), err=True)
        except (NotAsked, UnknownRun):
            return
        else:
            return


class Printer:
    """Prints text once, although a broken connection may bring some of it again."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._printed: dict[str, int] = {}
        self._line_open = False

    def take(self, event: dict[str, Any]) -> None:
        """Print what is new in a delta; start a new line where a node runs once more."""
        path = event.get("path", "")
        if event["type"] == "node.running" and self._printed.pop(path, 0):
            self._new_line()
        elif event["type"] == "delta":
            before = self._printed.get(path, 0)
            text = event["text"][max(0, before - event["offset"]) :]
            self._printed[path] = before + len(text)
            self._print(text)

    def end(self, run: dict[str, Any]) -> None:
        """What was not streamed, or why there is nothing."""
        if run["status"] == "done" and not self._printed:
            outputs = run["outputs"]
            text = outputs.get("text")
            self._print(
                text if isinstance(text, str) else json.dumps(outputs, indent=2, ensure_ascii=False)
            )
        self._new_line()
        if run["status"] == "failed":
            typer.echo(f"Run {run['id']} failed: {run['error']}", err=True)
        elif run["status"] == "cancelled":
            typer.echo(f"Run {run['id']} was cancelled.", err=True)

    def _print(self, text: str) -> None:
        if not self._silent and text:
            typer.echo(text, nl=False)
            self._line_open = not text.endswith("\n")

    def _new_line(self) -> None:
        if self._line_open:
            typer.echo()
            self._line_open = False


def text_of(outputs: dict[str, Any]) -> str:
    """The output `text` where there is one, else all of them as JSON."""
    text = outputs.get("text")
    return text if isinstance(text, str) else json.dumps(outputs, indent=2, ensure_ascii=False)


def summary(run: dict[str, Any]) -> dict[str, Any]:
    """What `--json` prints of a run that has ended."""
    told = {"run": run["id"], "status": run["status"], "outputs": run["outputs"] or {}}
    return told | ({"error": run["error"]} if run["error"] else {})
