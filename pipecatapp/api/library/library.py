"""The library of a request."""

from typing import Annotated

from fastapi import Depends, Path, Request

from pipecatapp.api.parts import WithParts
from pipecatapp.application.library.service import ID, LibraryService


def library_of(request: Request, parts: WithParts) -> LibraryService:
    """Return the prompts, tasks and projects of this instance."""
    return LibraryService(parts.runs, request.app.state.directory.root)


WithLibrary = Annotated[LibraryService, Depends(library_of)]
Id = Annotated[str, Path(pattern=ID, max_length=200)]
