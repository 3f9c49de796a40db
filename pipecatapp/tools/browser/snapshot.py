"""The visible lines of a page, and its interactive elements."""

import asyncio
import contextlib
import textwrap
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from pipecatapp.tools.browser.session import RESPONDS, Session
from pipecatapp.workflow import ToolFailed

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame

MOST_LINES: Final = 20_000
MOST_ELEMENTS: Final = 5_000
MOST_CHARACTERS: Final = 2_000_000
LONGEST_TEXT: Final = 200
"""Characters of a line; longer paragraphs are divided, so that the rest can be read on."""
DETACH_SECONDS: Final = 1.0
MOST_FRAMES: Final = 10
WORLD: Final = "hearth"
SILENCE: Final = 500
"""Milliseconds without a change after which a page is quiet."""
MOST_SILENCE: Final = 2_000
"""Milliseconds after which a page that always changes is taken as it is."""
SMALLEST: Final = 10
"""Pixels: what is inside of a smaller frame is not seen."""
SEEN: Final = "el => el.checkVisibility({opacityProperty: true, visibilityProperty: true})"
QUIET: Final = """(silence, most) => new Promise((done) => {
  let timer = setTimeout(done, silence);
  const changed = () => { clearTimeout(timer); timer = setTimeout(done, silence); };
  const kinds = {subtree: true, childList: true, characterData: true, attributes: true};
  new MutationObserver(changed).observe(document, kinds);
  setTimeout(done, most);
})"""


@dataclass(frozen=True)
class Element:
    """Something that a person can use, with its role and name of the accessibility tree."""

    role: str
    name: str
    text: str
    """Its visible text; may differ from the name."""
    selector: str
    """Its place in the document, as CSS."""
    value: str = ""
    states: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    frame: "Frame | None" = None

    @property
    def label(self) -> str:
        """Return the text for a reader: what is visible, otherwise the name."""
        return self.text or self.name


Part = str | int
"""A text, or the number of an element."""


@dataclass(frozen=True)
class Line:
    """A visible line. `group` names the list of similar items that it belongs to, and its item."""

    parts: tuple[Part, ...]
    family: str = ""
    item: str = ""


@dataclass
class Snapshot:
    """A page at one moment. Elements are numbered from 1."""

    lines: list[Line] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    cut: bool = False
    """Whether the page has more lines than are collected."""
    ref: str = ""

    def add(self, found: dict[str, Any], frame: "Frame | None", prefix: str) -> None:
        """Add the lines and elements of a document."""
        first = len(self.elements) + 1
        for one in found["elements"]:
            one.pop("computed")
            states, options = tuple(one.pop("states")), tuple(one.pop("options"))
            self.elements.append(Element(**one, states=states, options=options, frame=frame))
        for line in found["lines"]:
            family, _, item = line["group"].rpartition("/")
            parts = [one if isinstance(one, str) else first + one for one in line["parts"]]
            name = f"{prefix}{family}" if family else ""
            self.lines += [Line(tuple(some), name, item) for some in divided(parts)]
        self.cut = self.cut or bool(found["cut"])

    def element(self, number: int) -> Element:
        """Return an element by its number; raises `ToolFailed`."""
        if not 1 <= number <= len(self.elements):
            raise ToolFailed(
                f"The page has no element {number}: the last reading numbered 1 to"
                f" {len(self.elements)}. Read the page again."
            )
        return self.elements[number - 1]


def divided(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield the parts of a line as lines of at most `LONGEST_TEXT` characters, if words permit."""
    line: list[Part] = []
    length = 0
    for part in parts:
        if isinstance(part, int):
            line.append(part)
            continue
        for piece in _pieces(part):
            if line and length + len(piece) > LONGEST_TEXT:
                yield line
                line, length = [], 0
            line.append(piece)
            length += len(piece)
    yield line


def _pieces(text: str) -> list[str]:
    if len(text) <= LONGEST_TEXT:
        return [text]
    found = textwrap.wrap(text, LONGEST_TEXT, break_on_hyphens=False)
    return [text[0] * text[0].isspace() + found[0], *found[1:]] if found else [text]


@cache
def script() -> str:
    """The function that collects the lines of a document."""
    text = files("pipecatapp.tools.browser").joinpath("snapshot.js").read_text(encoding="utf-8")
    return text[text.index("(limits) =>") :]


async def taken(session: Session) -> Snapshot:
    """Take a snapshot of the page and of the frames in it, and keep it as the current one.

    Raises `TimeoutError` if the page does not respond.
    """
    limits = {"lines": MOST_LINES, "elements": MOST_ELEMENTS, "characters": MOST_CHARACTERS}
    snapshot = Snapshot()
    async with asyncio.timeout(RESPONDS):
        async for number, (frame, world) in _numbered(_worlds(session)):
            if number >= MOST_FRAMES:
                break
            found = await world.call(script(), limits)
            if frame.parent_frame is not None and found["lines"]:
                snapshot.lines.append(Line((f"Frame {frame.url[:200]}:",)))
            snapshot.add(found, frame, f"{number}:")
    session.reads += 1
    snapshot.ref = f"r{session.reads}"
    session.snapshot = snapshot
    return snapshot


async def quiet(session: Session, seconds: float) -> bool:
    """Wait until the page changes nothing and loads nothing, at most `seconds`.

    Returns whether it became quiet.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if await _is_quiet(session):
                    return True
    return False


async def _is_quiet(session: Session) -> bool:
    """Wait until the document does not change, and return whether nothing was loaded meanwhile."""
    from playwright.async_api import Error  # noqa: PLC0415 (optional)

    before = session.activity
    try:
        async for _frame, world in _worlds(session, inner=False):
            await world.call(QUIET, SILENCE, MOST_SILENCE)
    except Error:  # the page was replaced by another
        await asyncio.sleep(SILENCE / 1000)
        return False
    return before == session.activity and not session.running


@dataclass(frozen=True)
class _World:
    """An isolated world of a frame: scripts of the page do not see it."""

    cdp: "CDPSession"
    context: int

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a JavaScript function; its result must be JSON."""
        answer = await self.cdp.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": function,
                "executionContextId": self.context,
                "arguments": [{"value": one} for one in arguments],
                "returnByValue": True,
                "awaitPromise": True,
            },
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            told = details.get("exception", {}).get("description") or details["text"]
            raise ToolFailed(f"The page cannot be read: {told.splitlines()[0]}")
        return answer["result"].get("value")


async def _numbered(
    worlds: AsyncIterator[tuple["Frame", _World]],
) -> AsyncIterator[tuple[int, tuple["Frame", _World]]]:
    number = 0
    async for one in worlds:
        yield number, one
        number += 1


async def _worlds(session: Session, *, inner: bool = True) -> AsyncIterator[tuple["Frame", _World]]:
    """Yield the page and its visible frames, each with a world in it."""
    page = session.page
    cdp = await session.context.new_cdp_session(page)
    try:
        tree = (await cdp.send("Page.getFrameTree"))["frameTree"]
        yield page.main_frame, await _world(cdp, tree)
        if inner:
            async for one in _inner(session, page.main_frame, cdp, tree):
                yield one
    finally:
        await _detach(cdp)


async def _inner(
    session: Session, frame: "Frame", cdp: "CDPSession", tree: dict[str, Any]
) -> AsyncIterator[tuple["Frame", _World]]:
    """Yield the visible frames below a frame. A frame of another site has a separate process, and
    is not in the tree of the frame around it."""
    nodes: Iterator[dict[str, Any]] = iter(tree.get("childFrames", ()))
    for child in frame.child_frames:
        own = await _own_session(session, child)
        node = (await own.send("Page.getFrameTree"))["frameTree"] if own else next(nodes, None)
        try:
            if node is not None and await _is_seen(child):
                yield child, await _world(own or cdp, node)
                async for one in _inner(session, child, own or cdp, node):
                    yield one
        finally:
            if own is not None:
                await _detach(own)


async def _own_session(session: Session, frame: "Frame") -> "CDPSession | None":
    from playwright.async_api import Error  # noqa: PLC0415 (optional)

    try:
        return await session.context.new_cdp_session(frame)
    except Error:  # it shares the process of the frame around it
        return None


async def _is_seen(frame: "Frame") -> bool:
    element = await frame.frame_element()
    box = await element.bounding_box()
    is_large = box is not None and min(box["width"], box["height"]) >= SMALLEST
    return is_large and bool(await element.evaluate(SEEN))


async def _world(cdp: "CDPSession", tree: dict[str, Any]) -> _World:
    given = {"frameId": tree["frame"]["id"], "worldName": WORLD}
    answer = await cdp.send("Page.createIsolatedWorld", given)
    return _World(cdp, answer["executionContextId"])


async def _detach(cdp: "CDPSession") -> None:
    from playwright.async_api import Error  # noqa: PLC0415 (optional)

    # The page may have gone, or not respond.
    with contextlib.suppress(Error, TimeoutError):
        async with asyncio.timeout(DETACH_SECONDS):
            await cdp.detach()
