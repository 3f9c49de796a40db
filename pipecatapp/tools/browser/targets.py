"""Finding the element that an action is for: by role and name, then text, then CSS selector."""

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import Field

from pipecatapp.tools.browser.rendering import element_text
from pipecatapp.tools.browser.session import Session
from pipecatapp.tools.browser.snapshot import Element, Snapshot, taken
from pipecatapp.workflow import ToolFailed
from pipecatapp.workflow.tool import ToolInputs

if TYPE_CHECKING:
    from playwright.async_api import Frame, Locator

CANDIDATES: Final = 5


class Target(ToolInputs):
    """The element that an action is for."""

    element: int | None = Field(
        None, description="Its number in the last text of browser.read or browser.find.", ge=1
    )
    role: str = Field("", description="Its role, such as button, link or textbox.", max_length=40)
    name: str = Field("", description="Its name in the page.", max_length=300)
    text: str = Field("", description="Text that it contains, if it is not found by its name.")
    selector: str = Field("", description="CSS selector, used if nothing else finds it.")


@dataclass(frozen=True)
class Found:
    """An element of the page now, and how it is found again."""

    locator: "Locator"
    role: str
    name: str
    selector: str
    by: str
    """`name`, `text` or `selector`."""


async def found(session: Session, target: Target) -> Found:
    """Find the one element of a target; raises `ToolFailed` with near candidates."""
    known = session.snapshot
    if target.element is not None:
        if known is None:
            raise ToolFailed("The page has changed: read it again before you use a number.")
        element = known.element(target.element)
        wanted = Target(
            element=None, role=element.role, name=element.name, text=element.text,
            selector=element.selector,
        )  # fmt: skip
        frames = [element.frame] if element.frame else list(session.page.frames)
        return await _resolved(session, wanted, frames, known)
    if not (target.role or target.name or target.text or target.selector):
        raise ToolFailed(
            "Name the element: its number, its role and name, its text, or a selector."
        )
    return await _resolved(session, target, list(session.page.frames), None)


async def _resolved(
    session: Session, target: Target, frames: "list[Frame]", known: Snapshot | None
) -> Found:
    several = 0
    for by in ("name", "text", "selector"):
        matches = [one for frame in frames for one in await _matches(frame, target, by)]
        chosen = matches[0] if len(matches) == 1 else await _recorded(frames, target, matches)
        if chosen is not None:
            selector = target.selector or await _selector(session, target, known)
            return Found(chosen, target.role, target.name, selector, by)
        several = several or len(matches)
    known = known or await taken(session)
    raise ToolFailed(_unresolved(target, several, known))


async def _matches(frame: "Frame", target: Target, by: str) -> "list[Locator]":
    locator = _locator(frame, target, by)
    if locator is None:
        return []
    return [one for one in await locator.all() if await one.is_visible()]


def _locator(frame: "Frame", target: Target, by: str) -> "Locator | None":
    if by == "name" and target.name:
        if target.role:
            return frame.get_by_role(target.role, name=target.name, exact=True)  # type: ignore[arg-type]
        return frame.get_by_label(target.name, exact=True).or_(
            frame.get_by_text(target.name, exact=True)
        )
    if by == "text" and target.text:
        return frame.get_by_text(target.text, exact=False)
    if by == "selector" and target.selector:
        return frame.locator(f"css={target.selector}")
    return None


async def _recorded(
    frames: "list[Frame]", target: Target, matches: "list[Locator]"
) -> "Locator | None":
    """Return the match that the recorded selector names, or None."""
    if len(matches) < 2 or not target.selector:
        return None
    named = [one for frame in frames for one in await _matches(frame, target, "selector")]
    if len(named) != 1:
        return None
    wanted = await named[0].element_handle()
    for match in matches:
        handle = await match.element_handle()
        if await handle.evaluate("(one, other) => one === other", wanted):
            return match
    return None


async def _selector(session: Session, target: Target, known: Snapshot | None) -> str:
    """Return the selector of a target that was named in another way, to record it."""
    snapshot = known or await taken(session)
    same = [
        one
        for one in snapshot.elements
        if one.name == target.name and target.role in ("", one.role)
    ]
    return same[0].selector if len(same) == 1 else ""


def _unresolved(target: Target, several: int, snapshot: Snapshot) -> str:
    """Return what was wrong, and the nearest elements."""
    wanted = target.name or target.text or target.selector
    told = f'{target.role} "{wanted}"'.strip()
    near = "; ".join(
        f"[{number} {element_text(element)}]" for number, element in nearest(target, snapshot)
    )
    nearby = f" Nearest: {near}." if near else " The page has no interactive elements."
    if several:
        return f"{several} elements are {told}: use the number of one.{nearby}"
    return f"The page has no {told}.{nearby}"


def nearest(target: Target, snapshot: Snapshot) -> list[tuple[int, Element]]:
    """Return the elements most similar to the target, the nearest first, with their numbers."""
    wanted = (target.name or target.text).casefold()

    def likeness(element: Element) -> float:
        name = element.name.casefold()
        score = difflib.SequenceMatcher(None, wanted, name).ratio()
        return score + (0.5 if wanted and wanted in name else 0) + (element.role == target.role) / 4

    numbered = list(enumerate(snapshot.elements, 1))
    return sorted(numbered, key=lambda one: -likeness(one[1]))[:CANDIDATES]
