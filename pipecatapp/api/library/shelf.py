"""The shelf of a request."""

from typing import Annotated

from fastapi import Depends, Path, Request

from pipecatapp.api.parts import WithParts
from pipecatapp.shelf import ID, Shelf


def shelf_of(request: Request, parts: WithParts) -> Shelf:
    """What people keep in this instance."""
    return Shelf(parts.runs, request.app.state.directory.root)


WithShelf = Annotated[Shelf, Depends(shelf_of)]
Id = Annotated[str, Path(pattern=ID, max_length=200)]
