"""A gateway that is stopped and started again while it is asked."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import openai

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits, today
from tests.integration.gateway.conftest import CHAT, KEY, Lab, caller, chat, wait_until
from tests.integration.gateway.robust.process import Gateway
from tests.ports import free_port

WORKERS = 6


class Load:
    """Programs that ask one question after the other, each in its own words, until the block is
    left; the official client's own retries are all that they have."""

    def __init__(self, port: int) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self._port, self._stop = port, threading.Event()
        self._threads = ThreadPoolExecutor(WORKERS)

    def __enter__(self) -> "Load":
        for worker in range(WORKERS):
            self._threads.submit(self._work, worker)
        return self

    def __exit__(self, *of_no_interest: object) -> None:
        self._stop.set()
        self._threads.shutdown()

    def _work(self, worker: int) -> None:
        with openai.OpenAI(
            base_url=f"http://127.0.0.1:{self._port}/v1", api_key=KEY, max_retries=40, timeout=60
        ) as client:
            number = 0
            while not self._stop.is_set():
                number += 1
                self._ask(client, f"question {worker} {number}")

    def _ask(self, client: openai.OpenAI, text: str) -> None:
        try:
            client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": text}]
            )
        except openai.OpenAIError as error:
            self.failed.append(f"{text}: {error!r}")
        else:
            self.done.append(text)


def test_budget_outlives_the_gateway(lab: Lab, tmp_path: Path) -> None:
    """A restart makes no new day: what was used in the last moment is written down, too."""
    store = KeyStore(tmp_path / "keys.db")
    key = store.add("tablet", Limits(tokens_per_day=4))
    model, held = ScriptedModel(), threading.Event()
    model.when("go").say("one two three", held=held)
    instance, statuses = lab.expert(model), []
    for _ in range(2):
        with (
            Gateway(tmp_path, instance, KEY_STORE=str(store.path)) as gateway,
            caller(str(gateway.client.base_url), key) as tablet,
            ThreadPoolExecutor(1) as thread,
        ):
            answer = thread.submit(tablet.post, CHAT, json=chat("go"))
            wait_until(lambda answer=answer: model.running == 1 or answer.done())  # type: ignore[misc]
            gateway.child.send_signal(signal.SIGTERM)
            wait_until(lambda log=gateway: "Shutting down" in log.text)  # type: ignore[misc]
            held.set()
            statuses.append(answer.result().status_code)
            assert gateway.child.wait(60) == 0

    assert statuses == [200, 429]
    assert store.usage(today())["tablet"].tokens == 4
    assert len(model.requests) == 1


def test_restart_under_load_loses_no_request_and_asks_none_twice(lab: Lab, tmp_path: Path) -> None:
    """What was being answered is finished, what had not begun is told to come again."""
    model, port = ScriptedModel(), free_port()
    model.when("question").say("one two three", pause=0.02)
    instance = lab.expert(model, slots=4)
    with ExitStack() as running:
        first = running.enter_context(Gateway(tmp_path, instance, PORT=str(port)))
        load = running.enter_context(Load(port))
        wait_until(lambda: len(load.done) > 20, 120)
        first.child.send_signal(signal.SIGTERM)
        assert first.child.wait(60) == 0
        at_the_stop = len(load.done)
        running.enter_context(Gateway(tmp_path, instance, PORT=str(port)))
        wait_until(lambda: len(load.done) > at_the_stop + 20, 120)
        load.__exit__()
    asked = [one.body["messages"][0]["content"] for one in model.requests]

    assert load.failed == []
    assert sorted(asked) == sorted(load.done)
