"""A server with the parts of Forgejo's REST API that the ports use, with its state in memory."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "t0ken"
Json = dict[str, Any]


class Server:
    """One repository `home/shop`; a request without the token is refused."""

    def __init__(self) -> None:
        self.issues: list[Json] = []
        self.comments: dict[str, list[Json]] = {}
        self.pulls: list[Json] = []
        self.statuses: dict[str, list[Json]] = {}

    @property
    def app(self) -> Starlette:
        base = "/api/v1/repos/home/shop"
        routes = {
            "/issues": self._issues,
            "/issues/{id}": self._issue,
            "/issues/{id}/comments": self._comments,
            "/labels": self._labels,
            "/commits/{commit}/status": self._status,
            "/pulls": self._pulls,
        }
        methods = ["GET", "POST", "PATCH"]
        return Starlette(
            routes=[Route(base + path, self._known(call), methods=methods)
                    for path, call in routes.items()]
        )  # fmt: skip

    def _known(self, call: Any) -> Any:
        async def answer(request: Request) -> Response:
            if request.headers.get("authorization") != f"token {TOKEN}":
                return JSONResponse({"message": "token required"}, 401)
            answered: Response = await call(request)
            return answered

        return answer

    async def _issues(self, request: Request) -> Response:
        if request.method == "POST":
            body = await request.json()
            labels = [{"name": "bug"} for id in body["labels"] if id == 7]
            self.issues.insert(0, {"number": len(self.issues) + 1, "title": body["title"],
                                   "body": body["body"], "state": "open",
                                   "labels": labels})  # fmt: skip
            return JSONResponse(self.issues[0], 201)
        state = request.query_params["state"]
        return JSONResponse([one for one in self.issues if state in ("all", one["state"])])

    async def _issue(self, request: Request) -> Response:
        for issue in self.issues:
            if str(issue["number"]) == request.path_params["id"]:
                if request.method == "PATCH":
                    issue |= await request.json()
                return JSONResponse(issue)
        return JSONResponse({"message": "not found"}, 404)

    async def _comments(self, request: Request) -> Response:
        known = self.comments.setdefault(request.path_params["id"], [])
        if request.method == "POST":
            known.append(await request.json())
        return JSONResponse(known)

    async def _labels(self, request: Request) -> Response:
        return JSONResponse([{"id": 7, "name": "bug"}])

    async def _status(self, request: Request) -> Response:
        return JSONResponse({"statuses": self.statuses.get(request.path_params["commit"])})

    async def _pulls(self, request: Request) -> Response:
        if request.method == "POST":
            body = await request.json()
            self.pulls.insert(0, {"number": len(self.pulls) + 1, "title": body["title"],
                                  "body": body["body"], "state": "open", "merged": False,
                                  "head": {"ref": body["head"]}, "base": {"ref": body["base"]},
                                  "html_url": "http://git.home/shop/pulls/1"})  # fmt: skip
            return JSONResponse(self.pulls[0], 201)
        return JSONResponse(self.pulls)
