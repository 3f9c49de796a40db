"""`hearth workflows test`: run the tests of workflows with a scripted model."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pipecatapp.cli.documents.output import json_out
from pipecatapp.cli.exit_codes import DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, StateOption, document_of, is_file
from pipecatapp.client import Client, RequestFailed, connect_scripted

Json = dict[str, Any]
SERVER_ERROR: Final = 500


def run_tests(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files with `kind: tests`.")],
    name: Annotated[
        str, typer.Option("--name", metavar="WORDS", help="Only tests whose name has these words.")
    ] = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run the tests of workflows with a scripted model. No model server is needed.

    Each test is a run on a copy of your workflows, prompts and tools; yours stay as they are.
    Exit codes: 0 all pass, 1 a test fails, 2 a file is invalid.
    """
    finish(_test(files, name, state_dir, as_json=as_json))


@dataclass(frozen=True)
class _Result:
    """A test and what its run did not give."""

    file: str
    name: str
    run: Json
    failures: list[str]

    def shown(self) -> Iterator[str]:
        yield f"{'FAILED' if self.failures else 'passed'}  {self.file}: {self.name}"
        yield from (f"  {line}" for line in self.failures)

    def body(self) -> Json:
        return {
            "file": self.file, "name": self.name, "passed": not self.failures,
            "failures": self.failures, "status": self.run["status"],
            "outputs": self.run["outputs"], "error": self.run["error"],
        }  # fmt: skip


async def _test(files: list[str], name: str, state_dir: Path | None, *, as_json: bool) -> int:
    testing = import_module("pipecatapp.application.workflow_tests")
    scripted = import_module("pipecatapp.scripted_gateway")
    try:
        found = [(file, testing.read_tests(Path(file))) for file in files]
    except testing.InvalidTests as error:
        raise CommandFailed(str(error), code=INVALID) from error
    results: list[_Result] = []
    for file, tests in found:
        gateway = scripted.ScriptedGateway(*tests.models)
        roles = {"default": tests.models[0]} | tests.roles
        chosen = [test for test in tests.tests if name in test.name]
        document = _document(tests.workflow, Path(file).parent)
        async with connect_scripted(state_dir, gateway.app, roles) as client:
            planned = await client.request("POST", "/api/plan", document)
            if planned["diagnostics"]:
                raise CommandFailed(planned["text"], code=INVALID)
            for test in chosen:
                gateway.follow(test.model)
                run = await _run(client, document, test)
                wrong = testing.failures(test.expect, run, gateway.asked())
                results.append(_Result(file, test.name, run, wrong))
                for line in [] if as_json else results[-1].shown():
                    typer.echo(line)
    return _end(results, as_json=as_json)


def _document(workflow: str, folder: Path) -> Json:
    return document_of(str(folder / workflow) if is_file(workflow) else workflow)


async def _run(client: Client, document: Json, test: Any) -> Json:
    """Run the workflow to its end; inputs that it refuses are an error of the run."""
    body = document | {"inputs": test.inputs, "answers": test.answers, "interactive": False}
    try:
        run = (await client.request("POST", "/api/runs", body))["run"]
    except RequestFailed as error:
        if error.status >= SERVER_ERROR:
            raise
        return {"status": "failed", "outputs": None, "error": str(error), "steps": []}
    async for _ in client.events(run):
        pass
    ended: Json = await client.request("GET", f"/api/runs/{run}")
    return ended


def _end(results: list[_Result], *, as_json: bool) -> int:
    if not results:
        raise CommandFailed("No test has this name.", code=INVALID)
    failed = sum(bool(one.failures) for one in results)
    if as_json:
        json_out({"tests": [one.body() for one in results]})
    else:
        typer.echo(f"{len(results) - failed} passed, {failed} failed.")
    return FAILED if failed else DONE
