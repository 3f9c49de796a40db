"""A search engine with SearXNG's JSON interface over documents of a test, on a real socket.

It indexes the documents with SQLite's FTS5, so that its ranking and its excerpts are those of a
real index. Source of the form: https://docs.searxng.org/dev/search_api.html
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

PAGE: Final = 10


@dataclass(frozen=True)
class Page:
    """A document of the index."""

    url: str
    title: str
    text: str
    date: str | None = None
    category: str = "general"
    language: str = "en"


@dataclass
class SearchIndex:
    """The search engine: an ASGI application. `formats` are those that its settings permit, and
    `failures` are statuses that it answers with before anything else."""

    pages: Sequence[Page]
    formats: tuple[str, ...] = ("html", "json")
    failures: list[int] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._answer(Request(scope, receive))(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.asked.append(asked)
        if self.failures:
            return Response("busy", self.failures.pop(0))
        if request.url.path != "/search":
            return Response("not found", 404)
        if asked.get("format", "html") not in self.formats:
            return Response("Forbidden", 403)
        found = self._found(asked)
        start = PAGE * (int(asked.get("pageno", "1")) - 1)
        return JSONResponse(
            {
                "query": asked["q"],
                "number_of_results": len(found),
                "results": found[start : start + PAGE],
                "answers": [],
                "corrections": [],
                "infoboxes": [],
                "suggestions": [f"{asked['q']} manual"],
                "unresponsive_engines": [["slow engine", "timeout"]],
            }
        )

    def _found(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        """Return the pages that have all words, the best first."""
        with sqlite3.connect(":memory:") as db:
            db.execute("CREATE VIRTUAL TABLE pages USING fts5 (title, text)")
            for number, page in enumerate(self.pages):
                row = (number, page.title, page.text)
                db.execute("INSERT INTO pages (rowid, title, text) VALUES (?, ?, ?)", row)
            words = " ".join('"' + word.replace('"', '""') + '"' for word in asked["q"].split())
            rows = db.execute(
                "SELECT rowid, snippet(pages, 1, '<b>', '</b>', '…', 24), -rank FROM pages"
                " WHERE pages MATCH ? ORDER BY rank",
                (words,),
            ).fetchall()
        db.close()
        return [
            _row(self.pages[number], text, score)
            for number, text, score in rows
            if self._fits(self.pages[number], asked)
        ]

    @staticmethod
    def _fits(page: Page, asked: dict[str, str]) -> bool:
        categories = asked.get("categories", "general").split(",")
        return page.category in categories and asked.get("language", page.language) == page.language


def _row(page: Page, text: str, score: float) -> dict[str, Any]:
    return {
        "url": page.url,
        "title": page.title,
        "content": text,
        "engine": "local",
        "engines": ["local", "mirror"],
        "category": page.category,
        "publishedDate": page.date,
        "score": score,
        "template": "default.html",
    }
