"""An MCP server that misbehaves as its first argument says, after a proper beginning.

It is written out by hand because no library writes such servers. `hang` answers no call, `die`
ends in the middle of one, `flood` answers with a line without end, `deaf` never says anything,
`chatter` prints what is no message, `crash` ends at once, `grow` has another tool after a call.
"""

import json
import os
import sys
import time
from typing import Any

TOOL = {
    "name": "act",
    "description": "Misbehave.",
    "inputSchema": {"type": "object", "properties": {"how": {"type": "string"}}},
}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], **said: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}))


def misbehave(kind: str, how: str) -> None:
    if kind == "hang" and how != "well":
        time.sleep(600)
    elif kind == "die" and how != "well":
        sys.stderr.write("my disk is full\n")
        os._exit(3)
    elif kind == "flood":
        say("x" * 5_000_000)


def begin(kind: str) -> None:
    if kind == "crash":
        sys.exit("there is no such database")
    if kind == "deaf":
        time.sleep(600)
    if kind == "chatter":
        say("Welcome to this server!")


def main(kind: str) -> None:
    begin(kind)
    for request in map(json.loads, sys.stdin):
        method = request.get("method")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "wild", "version": "1"}
            capable = {"capabilities": {"tools": {}}, "serverInfo": about}
            answer(request, result={"protocolVersion": version, **capable})
        elif method == "tools/list":
            answer(request, result={"tools": [TOOL]})
            if kind == "grow":
                TOOL["name"] = "more"
        elif method == "tools/call":
            misbehave(kind, request["params"]["arguments"].get("how", ""))
            text = f"by process {os.getpid()}"
            if kind == "grow":
                say('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
            answer(request, result={"content": [{"type": "text", "text": text}]})
        elif "id" in request:
            answer(request, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main(sys.argv[1])
