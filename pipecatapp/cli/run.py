"""`hearth run`: run a workflow and print its text as it comes."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from pipecatapp.cli.desk import Desk, open_desk
from pipecatapp.cli.failure import CANCELLED, DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_inputs
from pipecatapp.cli.options import JsonOption, StateOption, WorkflowArgument, document_of

CODES = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}


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
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow; its text is printed as it comes. Ctrl-C cancels the run.

    Exit codes: 0 done, 1 failed, 2 invalid document or inputs, 130 cancelled.
    """
    finish(_run(workflow, given, conversation, state_dir, as_json=as_json))


async def _run(
    workflow: str,
    given: list[str],
    conversation: str | None,
    state_dir: Path | None,
    *,
    as_json: bool,
) -> int:
    document = document_of(workflow)
    async with open_desk(state_dir) as desk:
        planned = await desk.plan(document)
        if planned["diagnostics"]:
            raise CommandFailed(planned["text"], code=INVALID)
        run = await desk.start(document, parse_inputs(given, planned["inputs"]), conversation)
        printer = Printer(silent=as_json)
        await _follow(desk, run, printer)
        ended = await desk.show(run)
    if as_json:
        typer.echo(json.dumps(summary(ended), indent=2, ensure_ascii=False))
    else:
        printer.end(ended)
    return CODES[ended["status"]]


async def _follow(desk: Desk, run: str, printer: "Printer") -> None:
    """Print until the run ends. The first Ctrl-C cancels the run, a second one leaves at once."""
    loop, cancelling = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        cancelling.add(loop.create_task(desk.cancel(run)))

    loop.add_signal_handler(signal.SIGINT, cancel)
    try:
        async for event in desk.follow(run):
            printer.take(event)
        await asyncio.gather(*cancelling)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


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
