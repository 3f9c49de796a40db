"""`hearth evolve`: improve prompts on measured runs; a person decides what becomes live."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.client import connect, segment
from prompt_engineering.archive import Archive, Candidate, InvalidArchive
from prompt_engineering.campaign import CampaignError, Result
from prompt_engineering.cases import InvalidCases
from prompt_engineering.genome import diff_of
from prompt_engineering.opening import Estimate, Options, estimate, open_campaign
from prompt_engineering.selection import Method

StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CampaignArgument = Annotated[
    str,
    typer.Argument(metavar="CAMPAIGN", help="A campaign, as `hearth evolve list` shows it."),
]

WORDS = {
    None: "No candidate was better than the live prompt.",
    "promote": "The gate passed: the prompt is proposed.",
    "give_up": "The gate failed: the new prompt is not better.",
    "too_expensive": "The gate failed: the new prompt uses too many tokens.",
    "exhausted": "The gate used all of its cases without a decision.",
    "no_budget": "The gate stopped: the token budget is used up.",
    "open": "The gate has not decided.",
}


def commands(app: typer.Typer) -> None:
    """Add the commands of prompt evolution."""
    group = typer.Typer(help="Improve prompts on measured runs.", no_args_is_help=True)
    group.command("run")(run_campaign)
    group.command("list")(list_campaigns)
    group.command("show")(show_campaign)
    group.command("promote")(promote)
    group.command("rollback")(roll_back)
    app.add_typer(group, name="evolve")


def run_campaign(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Id of the prompt to improve.")],
    cases: Annotated[
        list[Path],
        typer.Option("--cases", help="File or folder of cases; default: the state directory's."),
    ] = [],  # noqa: B006
    test_cases: Annotated[
        list[Path],
        typer.Option("--test-case", help="File of cases that a proposed prompt must pass."),
    ] = [],  # noqa: B006
    method: Annotated[
        Method,
        typer.Option(
            "--selection-method", help="How the parent of the next candidate is selected."
        ),
    ] = "pareto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random choices.")] = 0,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, max=10_000, help="Maximum number of candidates.")
    ] = 30,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Maximum tokens of all runs and mutations.")
    ] = 1_000_000,
    model: Annotated[
        str, typer.Option("--model", help="Model that proposes changes; default: none.")
    ] = "",
    campaign: Annotated[
        str, typer.Option("--campaign", help="Name of the campaign; an existing one continues.")
    ] = "",
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="Folder of campaigns. Default: in the state directory."),
    ] = None,
    state_dir: StateOption = None,
    *,
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="Test the best candidate for a proposal.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the cost.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for a better prompt and propose it. The live prompt does not change.

    Exit codes: 0 a prompt is proposed, or --no-gate or --dry-run is used; 1 no prompt is proposed;
    2 invalid input.
    """
    options = Options(
        prompt=prompt,
        cases=cases,
        test_cases=test_cases,
        campaign=campaign,
        method=method,
        seed=seed,
        candidates=candidates,
        budget=budget,
        model=model,
        gate=gate,
        archive=archive,
        state_dir=state_dir,
    )
    work = _estimate(options, as_json=as_json) if dry_run else _run(options, as_json=as_json)
    finish(checked(work))


def list_campaigns(state_dir: StateOption = None, *, as_json: JsonOption = False) -> None:
    """List campaigns and the promoted prompts that are live."""
    finish(_list(state_dir, as_json=as_json))


def show_campaign(
    campaign: CampaignArgument,
    candidate: Annotated[
        str, typer.Option("--candidate", help="Show this candidate with its diff.")
    ] = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the candidates of a campaign, the gate and the proposal."""
    finish(_show(campaign, candidate, state_dir, as_json=as_json))


def promote(
    campaign: CampaignArgument,
    by: Annotated[str, typer.Option("--by", help="Your name, for the record.")] = "",
    state_dir: StateOption = None,
) -> None:
    """Show the evidence of a proposal and, after you type its name, make the prompt live."""
    finish(_promote(campaign, by, state_dir))


def roll_back(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Id of the prompt.")],
    state_dir: StateOption = None,
) -> None:
    """Remove the promoted version of a prompt."""
    finish(_roll_back(prompt, state_dir))


async def checked(work: Any) -> int:
    """Await the work of a command; an invalid campaign becomes an error with exit code 2."""
    try:
        code: int = await work
    except (CampaignError, InvalidCases, InvalidArchive) as error:
        raise CommandFailed(str(error), code=INVALID) from error
    return code


async def _run(options: Options, *, as_json: bool) -> int:
    async with open_campaign(options) as campaign:
        name = campaign.settings.campaign
        if not as_json:
            typer.echo(f"Campaign {name}", err=True)
        result = await campaign.run()
        archive = campaign.archive
    if as_json:
        typer.echo(json.dumps(_result(name, result), indent=2))
    else:
        typer.echo(_summary(archive, result))
    return DONE if result.decision == "promote" or not options.gate else FAILED


def _result(campaign: str, result: Result) -> dict[str, Any]:
    return {
        "campaign": campaign,
        "best": result.best,
        "decision": result.decision,
        "tokens": result.tokens,
    }


def _summary(archive: Archive, result: Result) -> str:
    counted = f"{len(archive.candidates)} candidates, {result.tokens} tokens."
    if result.best and result.decision is None:
        return f"{counted} Best on the search cases: {result.best}; the gate did not run."
    shown = f"Look at it with `hearth evolve show {archive.id}`."
    return f"{counted} {WORDS[result.decision]} {shown if result.best else ''}".rstrip()


async def _estimate(options: Options, *, as_json: bool) -> int:
    async with connect(options.state_dir) as client:
        cost = await estimate(client, options)
    if as_json:
        typer.echo(json.dumps(vars(cost) | {"tokens": cost.tokens}, indent=2))
    else:
        typer.echo(_cost(cost))
    return DONE


def _cost(cost: Estimate) -> str:
    source = "the mean of earlier runs" if cost.measured else "an estimate, without earlier runs"
    return (
        f"At most {cost.search_runs} runs of the search and {cost.gate_runs} of the gate.\n"
        f"{cost.tokens_per_run} tokens a run ({source}): at most {cost.tokens} tokens;"
        f" the budget is {cost.budget}."
    )


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", "/api/evolution")
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("campaign", "prompt", "created", "method"):
        table.add_column(name, no_wrap=True)
    for one in found["campaigns"]:
        table.add_row(one["campaign"], one["genome"]["prompt"], one["created"], one["method"])
    Console().print(table)
    for one in found["promotions"]:
        confirmed = f"confirmed by {one['by']} at {one['at']}"
        typer.echo(f"Live: {one['prompt']} from {one['campaign']}, {confirmed}.")
        if regret := found["regrets"].get(one["prompt"]):
            typer.echo(regret_text(regret))
    return DONE


async def _show(campaign: str, candidate: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/evolution/{segment(campaign)}")
    if candidate:
        chosen = [one for one in found["candidates"] if one["id"] == candidate]
        if not chosen:
            raise CommandFailed(f"The campaign {campaign!r} has no candidate {candidate!r}.")
        _print_candidate(chosen[0], as_json=as_json)
    elif as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_campaign(found)
    return DONE


def _print_candidate(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    parent = ", ".join(found["parents"]) or "none"
    typer.echo(f"{found['id']}: {found['origin']}, {found['status']}. Parent: {parent}.")
    typer.echo(f"Reason: {found['rationale'] or found['reason'] or 'the live prompt'}")
    typer.echo(f"\n{found['diff'] or found['genome']['text']}")


def _print_campaign(found: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("candidate", "parent", "origin", "status", "passed on search cases", "rationale"):
        table.add_column(name, overflow="fold" if name == "rationale" else "ellipsis")
    for one in map(Candidate.model_validate, found["candidates"]):
        passed = f"{one.passes} of {one.runs}"
        parent = ", ".join(one.parents)
        table.add_row(one.id, parent, one.origin, one.status, passed, one.reason or one.rationale)
    Console().print(table)
    if proposal := found["proposal"]:
        typer.echo(evidence_text(proposal))


def evidence_text(proposal: dict[str, Any]) -> str:
    """Return what a person has to know of a proposal before the decision."""
    evidence = proposal["evidence"]
    return (
        f"Proposed: {proposal['candidate']} for the prompt {proposal['prompt']}.\n"
        f"On {evidence['pairs']} unseen cases the new prompt passed {evidence['new_passed']}"
        f" and the live one {evidence['old_passed']}: {evidence['wins']} only the new one,"
        f" {evidence['losses']} only the live one. Evidence e = {evidence['e']} (20 is needed)."
        f" It uses {evidence['cost']:.2f} times the tokens."
    )


def regret_text(regret: dict[str, Any]) -> str:
    """Return what live runs tell of a promoted prompt, and what to do about it."""
    counts = regret["evidence"]
    text = (
        f"{regret['prompt']}: {counts['pairs']} live runs compared with the prompt before:"
        f" {counts['wins']} passed only with the promoted one, {counts['losses']} only with the old"
        f" one; e = {counts['e']}."
    )
    if regret["decision"] == "open":
        return text
    return f"{text} Rollback is proposed: `hearth evolve rollback {regret['prompt']}`."


async def _promote(campaign: str, by: str, state_dir: Path | None) -> int:
    if not sys.stdin.isatty():
        raise CommandFailed(
            "A person confirms a promotion: run this in a terminal, or use the page Evolution.",
            code=INVALID,
        )
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/evolution/{segment(campaign)}")
        proposal = found["proposal"]
        if proposal is None:
            raise CommandFailed(f"The campaign {campaign!r} proposes nothing.")
        typer.echo(f"{evidence_text(proposal)}\n\n{_diff(found['candidates'], proposal)}\n")
        typed = typer.prompt(f"Type {proposal['prompt']} to make it live", default="")
        if typed.strip() != proposal["prompt"]:
            raise CommandFailed("Nothing was changed.")
        who = by or typer.prompt("Your name")
        await client.request("POST", f"/api/evolution/{segment(campaign)}/promote", {"by": who})
    typer.echo(f"Live. Take it back with `hearth evolve rollback {proposal['prompt']}`.")
    return DONE


def _diff(candidates: Sequence[dict[str, Any]], proposal: dict[str, Any]) -> str:
    from_live = Candidate.model_validate(candidates[0]).genome.text
    new = next(one for one in candidates if one["id"] == proposal["candidate"])
    return diff_of(from_live, new["genome"]["text"])


async def _roll_back(prompt: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"/api/evolution/promotions/{segment(prompt)}")
    typer.echo(f"The promoted version of {prompt} is removed.")
    return DONE
