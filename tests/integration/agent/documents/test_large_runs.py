"""What takes long for a large run or document is done beside the event loop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from pipecatapp.workflow import compile_workflow
from pipecatapp.workflow.views import json_of, view
from tests.conftest import PromptServer
from tests.integration.agent.conftest import House, follow

DOCUMENT = "id: look\nsteps: [{id: now, use: time.now}]\noutputs: {at: '{{ now.iso }}'}\n"


@contextmanager
def threads_of(*functions: Any) -> Iterator[dict[str, set[int]]]:
    """In which threads functions run that begin meanwhile, by the names of the functions."""
    codes: dict[CodeType, str] = {one.__code__: one.__name__ for one in functions}
    found: dict[str, set[int]] = {one.__name__: set() for one in functions}

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and (name := codes.get(frame.f_code)) is not None:
            found[name].add(threading.get_ident())

    threading.setprofile(called)
    try:
        yield found
    finally:
        threading.setprofile(None)


def test_runs_are_read_and_documents_compiled_beside_the_event_loop(empty_house: House) -> None:
    """One page that shows 10,000 steps kept the whole house waiting for half a minute."""
    watched = threads_of(PromptServer.main_loop, view, json_of, compile_workflow)
    with watched as threads, empty_house.running(), empty_house.client() as client:
        threads["compile_workflow"].clear()  # The shipped ones, before the service is ready.
        run = client.post("/api/runs", json={"document": DOCUMENT}).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            follow(events)
        planned = client.post("/api/plan", json={"document": DOCUMENT})
        kept = client.put("/api/workflows/look/document", json={"document": DOCUMENT})
        shown = client.get(f"/api/runs/{run}")
        client.get(f"/api/runs/{run}/compare", params={"with": run}).raise_for_status()
        client.post(f"/api/runs/{run}/cancel").raise_for_status()
        client.post("/v1/chat/completions", json={"model": "agent", "messages": []})

    (loop,) = threads["main_loop"]
    assert (planned.status_code, kept.status_code, shown.status_code) == (200, 200, 200)
    assert shown.json()["steps"][0]["path"] == "now"
    for name in ("view", "json_of", "compile_workflow"):
        assert threads[name], name
        assert loop not in threads[name], name


def test_following_and_ending_a_run_reads_none_of_its_steps_for_people(empty_house: House) -> None:
    """Each event stream, and each end of a run, made the view that nobody looks at."""
    with threads_of(view) as threads, empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json={"document": DOCUMENT}).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            follow(events)
        empty_house.ask("hello")
        counted = client.get("/metrics").text

    assert 'pipecatapp_tool_calls_total{status="done",tool="time.now"} 1.0' in counted
    assert threads["view"] == set()
