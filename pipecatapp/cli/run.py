"""`hearth run`: run a workflow and print its text as it arrives."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pipecatapp.cli.exit_codes import CANCELLED, DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.forms import Form
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
from pipecatapp.cli.run_files import FilesOption, SaveOption, save, uploaded
from pipecatapp.client import Client, RequestFailed, connect

InputsOption = Annotated[
    list[str],
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="An input. @FILE as VALUE reads a file. Repeatable.",
    ),
]
CODES = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}
ASKING: Final = "asking"


def run_workflow(
    workflow: WorkflowArgument,
    given: InputsOption = [],  # noqa: B006
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Continue this conversation.")
    ] = None,
    answers: Annotated[
        list[str],
        typer.Option(
            "--answer", metavar="NODE=VALUE", help="The answer to a node's question. Repeatable."
        ),
    ] = [],  # noqa: B006
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    allow: AllowOption = [],  # noqa: B006
    files: FilesOption = [],  # noqa: B006
    save_to: SaveOption = None,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow and print its output as it arrives. Ctrl-C cancels the run.

    In a terminal you are asked for required inputs that are missing, and the workflow's questions.
    Elsewhere, a question without an `--answer` or a default fails the run.
    Exit codes: 0 done, 1 failed, 2 invalid document or inputs, 130 cancelled.
    """
    asking = sys.stdin.isatty() and not as_json
    options = RunOptions(given, answers, conversation, files, save_to, asking=asking)
    named = Named(workflow, layers, select, allow)
    finish(start_and_print(named.document, options, state_dir, as_json=as_json))


@dataclass(frozen=True)
class RunOptions:
    """The options of a run on the command line. `asking`: a person at a terminal can be asked."""

    given: list[str]
    answers: list[str]
    conversation: str | None
    files: list[str]
    save: Path | None
    asking: bool


async def start_and_print(
    document_of: Callable[[], dict[str, Any]],
    options: RunOptions,
    state_dir: Path | None,
    *,
    as_json: bool,
    form: bool = False,
) -> int:
    """Run a document of the API and print the run to its end; return the exit code.

    With `form` a person is asked for all inputs that were not given, else for the required ones.
    """
    document = document_of()
    async with connect(state_dir) as client:
        planned = await client.request("POST", "/api/plan", document)
        if planned["diagnostics"]:
            raise CommandFailed(planned["text"], code=INVALID)
        body = document | {
            "inputs": await _inputs(options, planned["inputs"], form=form),
            "answers": parse_answers(options.answers),
            "interactive": options.asking,
            "files": await uploaded(client, options.files),
        }
        if options.conversation:
            body["conversation"] = options.conversation
        run = (await client.request("POST", "/api/runs", body))["run"]
        code = await to_the_end(client, run, asking=options.asking, as_json=as_json)
        if options.save is not None:
            await save(client, run, options.save)
        return code


async def _inputs(options: RunOptions, schema: dict[str, Any], *, form: bool) -> dict[str, Any]:
    """Return the inputs of a run; a person at a terminal is asked for those that are missing."""
    if not options.asking:
        return parse_inputs(options.given, schema)
    given = parse_inputs(options.given, {**schema, "required": []})
    required = schema.get("required", [])
    asked = {
        name: field
        for name, field in schema.get("properties", {}).items()
        if name in required or (form and not options.given)
    }
    fill = Form({**schema, "properties": asked}, partial(typer.echo, err=True), _line).fill
    return await asyncio.get_running_loop().run_in_executor(None, fill, given)


def _line() -> str | None:
    """Read a line of the terminal; None at its end."""
    typer.echo("> ", nl=False, err=True)
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


async def to_the_end(client: Client, run: str, *, asking: bool, as_json: bool) -> int:
    """Print a run until it ends; returns the exit code."""
    return CODES[(await print_run(client, run, asking=asking, as_json=as_json))["status"]]


async def print_run(client: Client, run: str, *, asking: bool, as_json: bool) -> dict[str, Any]:
    """Print a run until it ends, and return it as it ended."""
    printer = Printer(silent=as_json)
    await _follow(client, run, printer, asking=asking)
    ended: dict[str, Any] = await client.request("GET", f"/api/runs/{run}")
    if as_json:
        typer.echo(json.dumps(summary(ended), indent=2, ensure_ascii=False))
    else:
        printer.end(ended)
    return ended


async def _follow(client: Client, run: str, printer: "Printer", *, asking: bool) -> None:
    """Print until the run ends. The first Ctrl-C cancels the run, a second one exits at once."""
    loop, beside = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        beside.add(loop.create_task(client.request("POST", f"/api/runs/{run}/cancel")))

    loop.add_signal_handler(signal.SIGINT, cancel)
    try:
        async for event in client.events(run):
            printer.take(event)
            if asking and event["type"] == "node.waiting":
                beside.add(loop.create_task(ask_here(client, run, event), name=ASKING))
        for task in beside:
            if task.get_name() == ASKING:
                task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def ask_here(client: Client, run: str, event: dict[str, Any]) -> None:
    """Print the question of a `node.waiting` event and send the typed line as its answer.

    An invalid answer is refused with the reason, and the question is repeated. An answer from
    another client, such as the web page, ends the question here too.
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
        answer = {"path": event["path"], "value": line.strip()}
        try:
            await client.request("POST", f"/api/runs/{run}/answer", answer)
        except RequestFailed as error:
            if error.code != "wrong_answer":
                return
            typer.echo(str(error), err=True)
        else:
            return


class Printer:
    """Prints text once, although a broken connection may bring some of it again."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._printed: dict[str, int] = {}
        self._path = ""
        self._line_open = False

    def take(self, event: dict[str, Any]) -> None:
        """Print the new text of a delta; each node, and each attempt, starts a new line."""
        path = event.get("path", "")
        if event["type"] == "node.running" and event["data"].get("attempt", 1) > 1:
            # The first attempt is not printed: its text may arrive before this event.
            self._printed[path] = 0
            self._path = ""
        elif event["type"] == "delta":
            before = self._printed.get(path, 0)
            text = event["text"][max(0, before - event["offset"]) :]
            self._printed[path] = before + len(text)
            if path != self._path:
                self._new_line()
            self._path = path
            self._print(text)

    def end(self, run: dict[str, Any]) -> None:
        """Print the output that was not streamed, or the error."""
        if run["status"] == "done" and not self._printed:
            self._print(text_of(run["outputs"]))
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
    """Return the JSON of an ended run that `--json` prints."""
    ended = {"run": run["id"], "status": run["status"], "outputs": run["outputs"] or {}}
    return ended | ({"error": run["error"]} if run["error"] else {})
