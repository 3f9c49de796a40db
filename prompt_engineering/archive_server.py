"""`python -m prompt_engineering.archive_server FOLDER`: the page Evolution, standalone, read only.

Serves the JSON of the application's `/api/evolution` and its page from an archive folder, so that a
copied archive can be looked at on a machine without an instance. Listens on the loopback address
only and changes nothing.
"""

import json
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from prompt_engineering.archive import Archive, InvalidArchive, archives
from prompt_engineering.campaign import Proposal, Settings
from prompt_engineering.gate import Gate

STATIC: Final = Path(str(files("pipecatapp"))) / "static"
API: Final = "/api/evolution"
POLICY: Final = "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"


def campaign_list(folder: Path) -> dict[str, Any]:
    """Return all campaigns of a folder, the newest first, as `/api/evolution` does."""
    found = [archive.read("campaign", Settings) for archive in archives(folder)]
    shown = [one.model_dump(mode="json") for one in found if one]
    shown.sort(key=lambda one: str(one["created"]), reverse=True)
    return {"campaigns": shown, "promotions": [], "regrets": {}, "states": {}}


def campaign_json(archive: Archive) -> dict[str, Any] | None:
    """Return one campaign as `/api/evolution/ID` does; None where there is none."""
    settings = archive.read("campaign", Settings)
    if settings is None:
        return None
    gate, proposal = archive.read("gate", Gate), archive.read("proposal", Proposal)
    return {
        "campaign": settings.model_dump(mode="json"),
        "candidates": [one.model_dump(mode="json") for one in archive.candidates],
        "gate": gate and gate.model_dump(mode="json"),
        "proposal": proposal and proposal.model_dump(mode="json"),
    }


class _Handler(SimpleHTTPRequestHandler):
    """GET only: `/`, `/static/…` and the JSON."""

    def __init__(self, *args: Any, archive: Path, **more: Any) -> None:
        self._archive = archive
        super().__init__(*args, directory=str(STATIC), **more)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self.path = "/evolution.html"
            super().do_GET()
        elif path.startswith("/static/"):
            self.path = path.removeprefix("/static")
            super().do_GET()
        elif path == API:
            self._send(campaign_list(self._archive))
        elif path.startswith(f"{API}/"):
            self._send(self._campaign(path.removeprefix(f"{API}/")))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: one person looks at an archive."""

    def end_headers(self) -> None:
        self.send_header("content-security-policy", POLICY)
        self.send_header("x-content-type-options", "nosniff")
        super().end_headers()

    def _campaign(self, name: str) -> dict[str, Any] | None:
        known = {archive.id: archive for archive in archives(self._archive)}
        return campaign_json(known[name]) if name in known else None

    def _send(self, content: dict[str, Any] | None) -> None:
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = json.dumps(content).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def server_of(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the campaigns in a folder, on the loopback address; port 0: any free one.

    Raises `InvalidArchive` for a folder without campaigns.
    """
    if not archives(folder):
        raise InvalidArchive(f"{folder} has no campaigns.")
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, archive=folder))


def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of campaigns.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8010,
) -> None:
    """Show the campaigns of a folder in a browser, until Ctrl-C."""
    try:
        server = server_of(folder, port)
    except (InvalidArchive, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(f"http://127.0.0.1:{server.server_address[1]}/")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.shutdown()


def main() -> None:
    """Run the command."""
    typer.run(serve)


if __name__ == "__main__":
    main()
