"""A pytest plugin: the blocks of the documentation that name a test reach it as they stand there.

A block that cannot run by itself (it never ends, or wants a network) carries the mark
`<!-- shown by: FILE::TEST -->`. That test has the fixture `shown` and takes each of its blocks out
of the page, so that nothing is retyped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fences import Fence, fences
from tests.rules import tree


class Shown:
    """The blocks that name one test, in the order of their pages."""

    def __init__(self, blocks: list[Fence]) -> None:
        self._left = blocks

    def take(self, page: str) -> str:
        """The text of the next block of that page."""
        for block in self._left:
            if block.page == Path(page):
                self._left.remove(block)
                return block.body
        raise LookupError(f"{page} has no further block that is shown by this test.")

    def left(self) -> list[str]:
        """Where the blocks stand that the test did not take."""
        return [str(block) for block in self._left]


@pytest.fixture
def shown(request: pytest.FixtureRequest) -> Iterator[Shown]:
    """What the documentation says that this test shows; the test takes all of it."""
    file = request.path.relative_to(tree.ROOT)
    name = f"{file}::{request.function.__name__}"
    blocks = Shown([f for page in tree.markdown() for f in fences(page) if f.elsewhere == name])
    yield blocks
    assert blocks.left() == [], f"{name} does not show what the documentation says that it does"
