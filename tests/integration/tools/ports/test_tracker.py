"""The tools of the bug tracker, on files and on a server: the same calls, the same results."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

LIST, SHOW, CREATE = TOOLS["tracker.list"], TOOLS["tracker.show"], TOOLS["tracker.create"]
COMMENT, CLOSE = TOOLS["tracker.comment"], TOOLS["tracker.close"]
Ports = Callable[[str, str], Context]


@pytest.mark.proves("003-13")
@pytest.mark.parametrize("use", ["files", "forgejo"])
async def test_issue_is_created_commented_and_closed(ports: Ports, use: str) -> None:
    """A workflow does not know which tracker it talks to."""
    ctx = ports("tracker", use)

    first = await CREATE.check(ctx, {"title": "Wrong total", "text": "30", "labels": ["bug"]})
    second = await CREATE.check(ctx, {"title": "Add a page", "text": "Please."})
    await COMMENT.check(ctx, {"id": first["id"], "text": "I look at it."})
    await CLOSE.check(ctx, {"id": second["id"]})

    assert (first["state"], first["labels"]) == ("open", ["bug"])
    shown = await SHOW.check(ctx, {"id": first["id"]})
    assert (shown["title"], shown["text"], shown["comments"]) == (
        "Wrong total", "30", ["I look at it."]
    )  # fmt: skip
    opened = await LIST.check(ctx, {})
    assert [issue["id"] for issue in opened["issues"]] == [first["id"]]
    everything = await LIST.check(ctx, {"state": None})
    assert [issue["title"] for issue in everything["issues"]] == ["Add a page", "Wrong total"]


@pytest.mark.parametrize("use", ["files", "forgejo"])
async def test_unknown_issue_is_an_error(ports: Ports, use: str) -> None:
    """Also one whose id is a path."""
    ctx = ports("tracker", use)
    for id in ("99", "../../etc/passwd"):
        with pytest.raises(ToolFailed):
            await SHOW.check(ctx, {"id": id})


async def test_refusal_and_silence_of_a_server_are_errors_without_its_token(
    ports: Ports, tmp_path: Path
) -> None:
    """The message says what to look at, and no secret."""
    ctx = ports("tracker", "forgejo")
    (tmp_path / "secrets" / "forgejo").write_text("wrong")
    with pytest.raises(ToolFailed, match="refuses GET /issues: 401") as refused:
        await LIST.check(ctx, {})
    assert "wrong" not in str(refused.value)
    with pytest.raises(ToolFailed, match="The server does not answer"):
        await LIST.check(ports("tracker", "deaf"), {})


async def test_port_that_is_not_set_up_says_where(ports: Ports, tmp_path: Path) -> None:
    """A home without a tracker has the tools, and they say what is missing."""
    with pytest.raises(ToolFailed, match=r"No tracker is set up: name one in .*ports\.yaml"):
        await LIST.check(ports("ci", "files"), {})
    with pytest.raises(ToolFailed, match="'jira' is not a valid tracker: use files, forgejo"):
        await LIST.check(ports("tracker", "jira"), {})
    ctx = ports("tracker", "files")
    (tmp_path / "ports.yaml").write_text("tracker: 1\nother: 2\n")
    with pytest.raises(ToolFailed, match="is not valid"):
        await LIST.check(ctx, {})
