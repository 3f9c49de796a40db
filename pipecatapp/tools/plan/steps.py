"""The tool that reads the steps of a plan that a person or a program has written."""

import re
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, ToolFailed, tool

MOST: Final = 100
ITEM: Final = re.compile(
    r"^(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?:\[(?P<mark>[ xX])\]\s+)?(?P<text>\S.*)$"
)
NAME: Final = re.compile(r"`([^`\n]+)`")
NOT_PATHS: Final = re.compile(rf"{NAME.pattern}|https?://\S+")
FILE: Final = re.compile(
    r"(?:[\w.@-]+/)*[\w@-][\w.@-]*\.[A-Za-z][A-Za-z0-9]{0,9}|(?:[\w.@-]+/)+(?!\w)"
)
"""A path: a name with a suffix, or a folder with a slash at its end."""
SYMBOL: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*(?:\(\))?")


class CheckedStep(BaseModel):
    """One step of a plan, and what it names."""

    id: str
    goal: str = Field(description="The words of the step.")
    files: list[str] = Field([], description="Files and folders that the step names.")
    names: list[str] = Field([], description="Functions, classes and the like that it names.")


class PlanSteps(BaseModel):
    """The steps of a plan in their order."""

    steps: list[CheckedStep] = Field(description="Each with the names in it.")


@tool("plan.steps", effect="pure", version=1)
async def plan_steps(
    ctx: Context,
    text: Annotated[str, Field(description="A plan with a list of steps, such as Markdown.")],
) -> PlanSteps:
    """Read the steps of a plan: the items of its lists, whether numbered, bulleted or to be ticked.

    Files and definitions are those that a step names in `backticks`, and paths with a slash or a
    usual suffix. Indented lines below an item belong to it.
    """
    items: list[list[str]] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        found = None if fenced else ITEM.match(line)
        if found is not None:
            items.append([found["text"]])
        elif items and line.strip() and (fenced or line.startswith((" ", "\t"))):
            items[-1].append(line.strip())
    if not items:
        raise ToolFailed("The plan has no list of steps: write each step as an item, `- …`.")
    if len(items) > MOST:
        raise ToolFailed(f"The plan has {len(items)} steps; at most {MOST} are checked.")
    return PlanSteps(
        steps=[step_of(f"step_{number}", "\n".join(item)) for number, item in enumerate(items, 1)]
    )


def step_of(id: str, goal: str) -> CheckedStep:
    """Return a step with the files and definitions that its words name."""
    quoted = NAME.findall(goal)
    paths = [one for one in quoted if FILE.fullmatch(one) and ("/" in one or _has_suffix(one))]
    paths += [one for one in FILE.findall(NOT_PATHS.sub(" ", goal)) if "/" in one]
    names = [one for one in quoted if one not in paths and SYMBOL.fullmatch(one)]
    return CheckedStep(
        id=id,
        goal=goal,
        files=list(dict.fromkeys(paths)),
        names=list(dict.fromkeys(one.removesuffix("()") for one in names)),
    )


SUFFIXES: Final = frozenset(
    (
        *("bash", "c", "cc", "cfg", "cpp", "cs", "css", "csv", "go", "h", "hpp", "html", "ini"),
        *(
            "java",
            "js",
            "json",
            "jsx",
            "lock",
            "md",
            "mjs",
            "php",
            "pl",
            "proto",
            "py",
            "pyi",
            "rb",
        ),
        *("rb", "rs", "rst", "sh", "sql", "svg", "toml", "ts", "tsx", "txt", "xml", "yaml", "yml"),
    )
)


def _has_suffix(path: str) -> bool:
    """Whether a name without a slash is that of a file, and not `shop.total`."""
    return path.rpartition(".")[2].lower() in SUFFIXES
