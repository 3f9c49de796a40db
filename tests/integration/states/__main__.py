"""Make the test data of `test_old_state.py`: a state directory with all that Hearth stores.

`python -m tests.integration.states` fills one through the real services and packs it as
`ledger-N.tar.gz` beside this file; N is the format of the ledger. Run it once for each format that
is released, add the file, and never change one that is there: it is what people's disks hold. What
is stored may be added to below, and is then asserted from that format on.
"""

import gzip
import io
import json
import sqlite3
import sys
import tarfile
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import structlog

from hearth.service.state import StateDir, ensure_state_dir
from pipecatapp.workflow.ledger.schema import MIGRATIONS
from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway, follow
from tests.integration.gateway.conftest import Lab, caller, chat, wait_until

FOLDER = Path(__file__).parent
PEOPLE = "sk-hearth-people"
LONG = "A bee is small. " * 1000
"""Too long for a row of the ledger, which keeps it as a blob."""

APPROVE = """kind: workflow
id: approve
version: 3
inputs: {topic: text}
steps:
  - {id: draft, use: llm, with: {text: "Write about {{ inputs.topic }}."}}
  - id: ask
    use: human.ask
    with: {question: "Publish {{ inputs.topic }}?", choices: [publish, drop], show: "{{ draft.text }}"}
  - {id: title, use: value, with: {value: "{{ inputs.topic | upper }}"}}
outputs: {answer: "{{ ask.answer }}", by: "{{ ask.by }}", title: "{{ title.value }}", text: "{{ draft.text }}"}
"""  # noqa: E501
KEEP = """id: keep
inputs: {topic: text}
steps:
  - id: note
    use: note.save
    with: {text: "{{ inputs.topic }} make honey", tags: [animals]}
  - {id: fresh, use: items.new, with: {items: [one, two], memory: numbers}}
  - {id: counted, use: code.outcome, with: {model: small, format: blocks, applied: true, green: false}}
outputs: {new: "{{ fresh.items }}"}
"""  # noqa: E501
REST = """id: rest
inputs: {topic: text}
steps:
  - {id: pause, use: wait, with: {seconds: 4}}
  - {id: words, use: llm, with: {text: "Write about {{ inputs.topic }}."}}
outputs: {text: "{{ words.text }}"}
"""
CHAT = """id: chat
inputs: {messages: messages, conversation: {type: text, default: ""}}
steps:
  - {id: before, use: conversation.recall, with: {conversation: "{{ inputs.conversation }}"}}
  - {id: words, use: llm, with: {messages: "{{ before.messages + inputs.messages }}"}}
outputs: {text: "{{ words.text }}"}
"""
POLITE = """kind: layer
id: polite
of: approve
set: {draft.with.text: "Please write about {{ inputs.topic }}."}
"""
PROMPT = "---\ntags: [poem]\n---\nWrite in verse.\n"
TASK = """kind: workflow
id: review-of-tea
tags: [review, tea]
about: {about}
inputs: {{text: {{type: text, default: ""}}}}
steps: [{{id: words, use: llm, prompt: [poem], with: {{text: "A review: {{{{ inputs.text }}}}"}}}}]
outputs: {{text: "{{{{ words.text }}}}"}}
"""
FIX: dict[str, Any] = {
    "signature": "TypeError: no <n> [total]",
    "language": "Python",
    "pattern": "TypeError: no <n>",
    "edit": [{"path": "a.py", "symbol": "total", "lines": [" def total():", "-  1", "+  2"]}],
    "at": "2026-11-25T10:00:00Z",
    "asked": 3,
    "applied": 2,
    "green": 1,
}
PROJECT = """kind: project
id: garden
vision: A garden for bees.
languages: [python]
secrets: {weather: env:WEATHER_KEY}
"""


def main() -> None:
    """Make the file and say where it is."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    target = FOLDER / f"ledger-{len(MIGRATIONS)}.tar.gz"
    if target.exists():
        raise SystemExit(f"{target} is there: it is test data of this format, which stays.")
    with TemporaryDirectory() as folder, ExitStack() as stack:
        state = StateDir(Path(folder) / "state")
        ensure_state_dir(state)
        for file, key in ((state.key_file, PEOPLE), (state.service_key_file, "sk-hearth-services")):
            file.write_text(f"{key}\n", encoding="ascii")
            file.chmod(0o600)
        fill(state, stack)
        compact(state.ledger)
        compact(state.key_store)
        target.write_bytes(packed(state.root))
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes\n")


def fill(state: StateDir, stack: ExitStack) -> None:
    """Use an agent service and a gateway on `state` as people do."""
    (state.root / "projects").mkdir()
    (state.root / "projects" / "garden.yaml").write_text(PROJECT, encoding="utf-8")
    model = ScriptedGateway()
    model.when("write about bees").say(LONG)
    model.when(lambda _request: True).say("Words.")
    house = House(state.root, model, stack.enter_context(served(model.app)))
    with house.running(), house.client() as client:
        fill_library(client)
        fill_runs(client)
        fill_conversation(client)
        post(client, "/api/fixes/import", format=1, fixes=[FIX])
        start(client, "rest", "moles")  # The service stops while it waits.
    with TemporaryDirectory() as folder:
        fill_keys(state, Lab(stack, Path(folder)), model)


def fill_library(client: httpx2.Client) -> None:
    """Documents, a layer, a prompt, two versions of a task and a schedule that is paused."""
    for text in (APPROVE, KEEP, REST, CHAT):
        name = text.partition("id: ")[2].split()[0]
        put(client, f"/api/workflows/{name}/document", document=text)
    put(client, "/api/layers/polite", document=POLITE)
    put(client, "/api/prompts/verse", document=PROMPT)
    for about in ("Reviews tea.", "Reviews any tea."):
        post(client, "/api/tasks", document=TASK.format(about=about))
    put(client, "/api/schedules/nightly", workflow="rest", cron="30 3 * * *", zone="Europe/Oslo",
        inputs={"topic": "owls"})  # fmt: skip
    post(client, "/api/schedules/nightly/pause")


def fill_runs(client: httpx2.Client) -> None:
    """Runs of each status, by the topic that each has to itself; the last one waits."""
    bees = start(client, "approve", "bees", layers=["polite"])
    answer(client, bees, "publish")
    fork = str(post(client, f"/api/runs/{bees}/fork", answers={"ask": "drop"})["run"])
    end(client, fork)
    end(client, start(client, "approve", "ants", interactive=False))
    cancelled = start(client, "approve", "cats")
    wait_for(client, cancelled, "node.waiting")
    post(client, f"/api/runs/{cancelled}/cancel")
    end(client, start(client, "keep", "Bees"))
    waiting = start(client, "approve", "dogs")
    wait_for(client, waiting, "node.waiting")
    post(client, f"/api/runs/{waiting}/notes", text="Mind the leash.", by="anna")


def fill_conversation(client: httpx2.Client) -> None:
    """Two turns."""
    for text in ("My name is Ada.", "What is my name?"):
        inputs = {"messages": [{"role": "user", "content": text}]}
        body = {"workflow": "chat", "inputs": inputs, "conversation": "ada-and-the-house"}
        end(client, str(post(client, "/api/runs", **body)["run"]))
    (listed,) = client.get("/api/conversations").raise_for_status().json()["conversations"]
    sent = client.patch(f"/api/conversations/{listed['id']}", json={"pinned": True})
    sent.raise_for_status()


def fill_keys(state: StateDir, lab: Lab, model: ScriptedGateway) -> None:
    """A key that was used once, and one that is revoked; both are kept in `made-keys`, too."""
    gateway = lab.gateway(lab.expert(model), key_store=state.key_store)
    keys = [str(post(gateway, "/api/keys", name=name)["key"]) for name in ("phone", "lost")]
    with caller(str(gateway.base_url), keys[0]) as phone:
        phone.post("/v1/chat/completions", json=chat("Hello.")).raise_for_status()
    gateway.delete("/api/keys/lost").raise_for_status()
    wait_until(lambda: any(one["today"]["requests"] for one in keys_of(gateway)))
    wait_until(lambda: bool(used(state.key_store)))
    made = state.root / "made-keys"
    made.write_text("\n".join(keys), encoding="ascii")
    made.chmod(0o600)


def keys_of(gateway: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gateway.get("/api/keys").raise_for_status().json()["keys"]
    return found


def used(store: Path) -> list[Any]:
    with closing(sqlite3.connect(store)) as db:
        return db.execute("SELECT * FROM usage").fetchall()


def start(client: httpx2.Client, workflow: str, topic: str, **more: Any) -> str:
    body = {"workflow": workflow, "inputs": {"topic": topic}, **more}
    return str(post(client, "/api/runs", **body)["run"])


def wait_for(client: httpx2.Client, run: str, event: str) -> str:
    """Follow a run up to an event of that type; gives the path of the step it is of."""
    with client.stream("GET", f"/api/runs/{run}/events") as stream:
        last = follow(stream, until=event)[-1]
    assert last.event == event, last
    return str(json.loads(last.data)["path"])


def end(client: httpx2.Client, run: str) -> None:
    """Follow a run until it ends; a stream ends earlier while the run waits to be resumed."""

    def ended() -> bool:
        with client.stream("GET", f"/api/runs/{run}/events") as stream:
            return any(event.event == "end" for event in follow(stream))

    wait_until(ended)


def answer(client: httpx2.Client, run: str, value: str) -> None:
    """Answer the question of a run and wait for its end."""
    path = wait_for(client, run, "node.waiting")
    post(client, f"/api/runs/{run}/answer", path=path, value=value)
    end(client, run)


def put(client: httpx2.Client, to: str, /, **body: Any) -> None:
    sent = client.put(to, json=body)
    assert sent.status_code == 200, (to, sent.text)
    assert not sent.json().get("diagnostics"), sent.text


def post(client: httpx2.Client, to: str, /, **body: Any) -> dict[str, Any]:
    sent = client.post(to, json=body)
    assert sent.status_code < 300, (to, sent.text)
    return dict(sent.json()) if sent.content else {}


def compact(database: Path) -> None:
    """Leave one small file, without a log beside it."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def packed(folder: Path) -> bytes:
    """A compressed archive of the files: in the order of their names, and without times."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(folder)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                tar.addfile(entry, content)
    return gzip.compress(raw.getvalue(), mtime=0)


if __name__ == "__main__":
    main()
