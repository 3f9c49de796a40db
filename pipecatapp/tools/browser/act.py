"""The tool `browser.act`: use an element of the open page."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from pipecatapp.tools.browser.loading import SETTLE, Page, begin, load, seen
from pipecatapp.tools.browser.process import NEEDS
from pipecatapp.tools.browser.session import Browsers, Session
from pipecatapp.tools.browser.snapshot import quiet
from pipecatapp.tools.browser.targets import Found, Target, found
from pipecatapp.workflow import Approve, Context, ToolFailed, tool

if TYPE_CHECKING:
    from playwright.async_api import Locator

Action = Literal["click", "fill", "select", "press", "check", "uncheck", "scroll", "back"]

HARMLESS: Final = frozenset({"click", "scroll", "back"})
"""Actions that give no words of the model to the site."""
ACTS: Final = 5_000
"""Milliseconds that an element may take until it can be used."""
SAME_WINDOW: Final = """el => {
  for (const one of [el.closest('a[target]'), el.form]) if (one?.target) one.target = '_self';
}"""


class Acted(Page):
    """The page after the action, and the element that was used."""

    role: str = Field(description="Role of the element.")
    name: str = Field(description="Name of the element.")
    selector: str = Field(description="CSS selector of the element, to find it again.")
    by: str = Field(description="How it was found: `name`, `text` or `selector`; empty for none.")
    stopped: list[str] = Field(
        description="Requests that were not sent because they may change something: repeat the"
        " action with `submit: true` if that is intended."
    )


def approval(given: Mapping[str, Any]) -> Approve:
    """A person approves each submission, and the first action that gives words to the site."""
    if given.get("submit"):
        return "always"
    return "never" if given.get("action") in HARMLESS else "first"


@tool("browser.act", effect="external", version=1, approve=approval, needs=NEEDS)
async def act(
    ctx: Context,
    action: Annotated[Action, Field(description="The action.")],
    target: Target,
    value: Annotated[
        str,
        Field(
            description="The text to fill in, the option to select, the key to press (`Enter`), or"
            " `up` to scroll up.",
            max_length=10_000,
        ),
    ] = "",
    submit: Annotated[  # noqa: FBT002 (an input)
        bool,
        Field(
            description="Permits requests that may change something (POST, PUT, PATCH, DELETE); a"
            " person approves each such call of a model."
        ),
    ] = False,
) -> Acted:
    """Use an element of the open page: click, fill in, select, press a key, scroll, go back."""
    async with ctx.service(Browsers).current(ctx.run) as session:
        if action == "back":
            return await _back(session)
        used = await _target(session, action, target)
        begin(session)
        session.guarded = not submit
        try:
            await _perform(session, action, used, value)
            await quiet(session, SETTLE)
        finally:
            session.guarded = True
        page = await _checked(session)
    acted = Acted(
        **page.model_dump(),
        role=used.role if used else "",
        name=used.name if used else "",
        selector=used.selector if used else "",
        by=used.by if used else "",
        stopped=list(session.stopped),
    )
    ctx.record(address=acted.address, by=acted.by)
    return acted


async def _target(session: Session, action: Action, target: Target) -> Found | None:
    """Return the element; None where a key or scrolling is meant for the page."""
    named = target.element or target.role or target.name or target.text or target.selector
    if action in ("press", "scroll") and not named:
        return None
    return await found(session, target)


async def _perform(session: Session, action: Action, used: Found | None, value: str) -> None:
    if action == "scroll":
        await _scroll(session, used, value)
    elif used is None:
        await session.page.keyboard.press(_key(value))
    elif action == "press":
        await used.locator.press(_key(value), timeout=ACTS)
    elif action == "select":
        await _select(used.locator, value)
    elif action == "fill":
        await used.locator.fill(value, timeout=ACTS)
    elif action == "click":
        await used.locator.evaluate(SAME_WINDOW)
        await used.locator.click(timeout=ACTS)
    else:
        await used.locator.set_checked(action == "check", timeout=ACTS)


def _key(value: str) -> str:
    if not value:
        raise ToolFailed("Name the key to press in `value`, such as `Enter`.")
    return value


async def _select(locator: "Locator", value: str) -> None:
    """Select an option by its label or its value; raises `ToolFailed` with the options."""
    labels: list[str] = await locator.evaluate(
        "el => [...(el.options ?? [])].map((one) => one.label)"
    )
    values: list[str] = await locator.evaluate(
        "el => [...(el.options ?? [])].map((one) => one.value)"
    )
    if value in labels:
        await locator.select_option(label=value, timeout=ACTS)
    elif value in values:
        await locator.select_option(value=value, timeout=ACTS)
    else:
        told = ", ".join(labels[:20]) or "none: it is not a list of options"
        raise ToolFailed(f"There is no option {value!r}. Options: {told}.")


async def _scroll(session: Session, used: Found | None, value: str) -> None:
    if used is not None:
        await used.locator.scroll_into_view_if_needed(timeout=ACTS)
        return
    sign = "-" if value == "up" else ""
    await session.page.evaluate(f"window.scrollBy(0, {sign}0.9 * window.innerHeight)")


async def _checked(session: Session) -> Page:
    """Describe the page; raises `ToolFailed` if the action has led to one that is not shown."""
    async with asyncio.timeout(SETTLE):
        await session.page.wait_for_load_state("domcontentloaded")
    if session.is_open:
        return await seen(session)
    reason = next(iter(session.proxy.refused.values()), "")
    stopped = f" It was not permitted to send {session.stopped[0]}." if session.stopped else ""
    raise ToolFailed(f"The action led to no page. {reason}{stopped}".rstrip())


async def _back(session: Session) -> Acted:
    page = session.page
    opened = await load(session, lambda: page.go_back(wait_until="commit"))
    session.guarded = True
    return Acted(**opened.model_dump(), role="", name="", selector="", by="", stopped=[])
