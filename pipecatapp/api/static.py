"""`/` and `/static/…`: the web page, from one folder, checked again by its ETag."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hearth.service.http_errors import Refused

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class StaticFile:
    body: bytes
    media_type: str
    etag: str


class StaticFolder:
    """The files below `root` whose kind is in `TYPES`; nothing outside it and no hidden file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept: dict[Path, tuple[int, StaticFile]] = {}

    def find(self, name: str) -> StaticFile | None:
        """The file `name` (with `/` between its folders), or None; re-read when it changed."""
        if "\0" in name or any(part.startswith(".") for part in name.split("/")):
            return None
        root = self.root.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root) or path.suffix not in TYPES or not path.is_file():
            return None
        changed = path.stat().st_mtime_ns
        kept = self._kept.get(path)
        if kept is None or kept[0] != changed:
            body = path.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            kept = self._kept[path] = (changed, StaticFile(body, TYPES[path.suffix], etag))
        return kept[1]


def static_routes(root: Path) -> list[Route]:
    """The page at `/` and its parts below `/static/`; 404 for what the folder has not."""
    folder = StaticFolder(root)

    async def show_page(request: Request) -> Response:
        return _answer(request, folder.find("index.html"))

    async def show_part(request: Request) -> Response:
        return _answer(request, folder.find(request.path_params["name"]))

    return [Route("/", show_page), Route("/static/{name:path}", show_part)]


def _answer(request: Request, file: StaticFile | None) -> Response:
    if file is None:
        raise Refused(404, "file_not_found", f"There is no page {request.url.path}.")
    headers = {"etag": file.etag, "cache-control": "no-cache"}
    known = [tag.strip().removeprefix("W/") for tag in _if_none_match(request).split(",")]
    if file.etag in known or known == ["*"]:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


def _if_none_match(request: Request) -> str:
    return request.headers.get("if-none-match", "")
