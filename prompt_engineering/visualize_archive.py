"""`python -m prompt_engineering.visualize_archive FOLDER`: a campaign as text or DOT."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from prompt_engineering.archive import Archive, Candidate


def tree_lines(candidates: Sequence[Candidate], parent: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a line for each candidate below a parent, indented by its generation."""
    for one in candidates:
        if (one.parents[0] if one.parents else "") == parent:
            score = f"{one.passes} of {one.runs}" if one.runs else one.status
            yield f"{'  ' * depth}{one.id} {one.origin} {score} {one.rationale}".rstrip()
            yield from tree_lines(candidates, one.id, depth + 1)


def dot_text(candidates: Sequence[Candidate]) -> str:
    """Return the tree in Graphviz's DOT language; texts are JSON strings, which DOT reads."""
    nodes = [
        f"  {json.dumps(one.id)} [label={json.dumps(f'{one.id} {one.origin} {one.mean:.2f}')}];"
        for one in candidates
    ]
    edges = [
        f"  {json.dumps(parent)} -> {json.dumps(one.id)};"
        for one in candidates
        for parent in one.parents
    ]
    return "\n".join(("digraph campaign {", *nodes, *edges, "}"))


def visualize(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a campaign.")],
    form: Annotated[Literal["text", "dot"], typer.Option("--format", help="Form.")] = "text",
) -> None:
    """Print the candidates of a campaign as a tree."""
    candidates = Archive(folder).candidates
    if not candidates:
        typer.echo(f"{folder} is not a campaign with candidates.", err=True)
        raise typer.Exit(2)
    typer.echo(dot_text(candidates) if form == "dot" else "\n".join(tree_lines(candidates)))


def main() -> None:
    """Run the command."""
    typer.run(visualize)


if __name__ == "__main__":
    main()
