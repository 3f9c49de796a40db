"""Undo and redo of a text: the inverse patch of each change, the latest last."""

from typing import Final

from pydantic import BaseModel

LONGEST: Final = 1000
"""Changes that can be undone; older ones are forgotten."""


class NothingToUndo(LookupError):
    """There is no change to undo, or none to redo."""


class Patch(BaseModel):
    """Replace `removed`, which begins at the character `at`, with `inserted`."""

    at: int
    removed: str
    inserted: str

    def applied(self, text: str) -> str:
        """Return the text with the change made."""
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def inverse(self) -> "Patch":
        """Return the patch that takes this one back."""
        return Patch(at=self.at, removed=self.inserted, inserted=self.removed)


def patch_between(before: str, after: str) -> Patch:
    """Return the smallest single replacement that makes `after` of `before`."""
    start = _common(before, after)
    tail = _common(before[start:][::-1], after[start:][::-1])
    return Patch(
        at=start,
        removed=before[start : len(before) - tail],
        inserted=after[start : len(after) - tail],
    )


def _common(one: str, other: str) -> int:
    """Return the length of the longest common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class History(BaseModel):
    """A text with its changes; `undo` and `redo` are patches to apply, the next one last."""

    text: str
    undo: list[Patch] = []
    redo: list[Patch] = []

    def change(self, text: str) -> None:
        """Replace the text. The changes that were undone before can no longer be redone."""
        if text == self.text:
            return
        self.undo.append(patch_between(text, self.text))
        del self.undo[:-LONGEST]
        self.redo.clear()
        self.text = text

    def undo_change(self) -> None:
        """Take the latest change back; raises `NothingToUndo`."""
        self._step(self.undo, self.redo, "There is no change to undo.")

    def redo_change(self) -> None:
        """Make the change again that was undone last; raises `NothingToUndo`."""
        self._step(self.redo, self.undo, "There is no change to redo.")

    def _step(self, source: list[Patch], target: list[Patch], message: str) -> None:
        if not source:
            raise NothingToUndo(message)
        patch = source.pop()
        target.append(patch.inverse())
        self.text = patch.applied(self.text)
