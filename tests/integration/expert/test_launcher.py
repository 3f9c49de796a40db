"""The launcher: which model of its list it serves, and what it says when it cannot."""

import signal
import socket
from typing import Any

import psutil
import pytest

from tests.integration.expert.clever import Clever
from tests.integration.expert.running import Starter, until

HALF = 50_000_000


def served(starter: Starter, settings: dict[str, Any]) -> tuple[str, str]:
    """The model that an expert with the list clever, smollm2 serves, and its log."""
    with starter.running(["clever", "smollm2"], **settings) as expert:
        (model,) = expert.client.get("/v1/models").json()["data"]
        expert.chat("Hello", max_tokens=2)
        until(lambda: "event=expert_ready" in expert.said(), 60, "the launcher saw it ready")
        return model["id"], expert.said()


def test_first_model_of_the_list_is_served_when_it_works(embedded: Starter, clever: Clever) -> None:
    """The fallback is for trouble only; its file may be good, but it is not what was chosen."""
    model, said = served(embedded, clever.add(clever.small))

    assert model == "clever"
    assert "event=expert_ready model=clever" in said
    assert "model_skipped" not in said


@pytest.mark.proves("004-43")
def test_model_that_fails_to_load_is_replaced_by_the_small_one_which_says_so(
    embedded: Starter, clever: Clever
) -> None:
    """A home with a weak answer is better off than one without any, if it knows why."""
    model, said = served(embedded, clever.add(clever.small[:HALF]))

    assert model == "smollm2"
    assert "event=model_skipped model=clever" in said
    assert "the engine ended with exit code 1 while it loaded the model." in said
    assert "event=expert_ready model=smollm2" in said


@pytest.mark.parametrize(
    ("content", "fields", "reason"),
    [
        (None, {}, "clever is not pulled."),
        (b"not the model", {"sha256": "ab" * 32}, "clever.gguf is damaged"),
        (b"tiny", {"ram_bytes": 10**15}, "it needs 1000000.0 GB of memory"),
    ],
    ids=["missing", "damaged", "too big"],
)
def test_model_that_cannot_work_is_not_even_loaded(
    embedded: Starter, clever: Clever, content: bytes | None, fields: dict[str, Any], reason: str
) -> None:
    """Loading twenty gigabytes only to fail would cost minutes, or the whole machine."""
    model, said = served(embedded, clever.add(content, **fields))

    assert model == "smollm2"
    assert reason in said
    assert "engine_failed" not in said


def test_list_without_a_model_that_works_ends_with_every_reason(
    embedded: Starter, clever: Clever
) -> None:
    """The last line of the log is the one that people read."""
    expert = embedded.begin(["clever", "smollm3"], **clever.add(None))

    assert expert.ended() == 1
    last = expert.said().splitlines()[-1]
    assert last.startswith("No model of the expert smollm2 works. clever: clever is not pulled.")
    assert "The catalogue has no model 'smollm3'. Did you mean smollm2?" in last


def test_taken_port_is_said_at_once(embedded: Starter) -> None:
    """Loading the model first would cost the time of everybody who forgot another instance."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        expert = embedded.begin(port=port)

        assert expert.ended() == 1
    assert expert.said().splitlines() == [
        f"Port {port} of 127.0.0.1 cannot be used (Address already in use): end the program that"
        " has it, or set LLAMA_EXPERT_PORT."
    ]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("llama-server", "/nowhere is not a program"),
        ("llama-cpp-python", "llama-cpp-python[server]"),
    ],
)
def test_engine_that_is_not_installed_is_named(embedded: Starter, engine: str, words: str) -> None:
    """An engine is chosen by name; what has to be installed for it, people cannot know."""
    expert = embedded.begin(engine=engine, llama_server_binary="/nowhere")

    assert expert.ended() == 1
    assert words in expert.said()
    assert len(expert.said().splitlines()) == 1


def test_engine_that_dies_while_it_serves_ends_the_expert(embedded: Starter) -> None:
    """Its supervisor starts it again; pretending to be there would leave the gateway waiting."""
    with embedded.running() as expert:
        until(lambda: "expert_ready" in expert.said(), 60, "the launcher saw it ready")
        expert.engine_process().send_signal(signal.SIGKILL)

        assert expert.ended() == 1
    assert expert.said().splitlines()[-1] == ("The engine that served smollm2 ended with SIGKILL.")


def test_expert_that_is_stopped_while_it_loads_ends_cleanly(embedded: Starter) -> None:
    """Ctrl-C during the first seconds is the most usual moment for one."""
    expert = embedded.begin()
    until(
        lambda: bool(psutil.Process(expert.process.pid).children()), 120, "the engine was started"
    )
    expert.process.send_signal(signal.SIGINT)

    assert expert.ended() == 0


def test_misspelt_setting_is_refused(embedded: Starter) -> None:
    """A setting that is silently ignored is found weeks later."""
    expert = embedded.begin(slot=2)

    assert expert.ended() == 1
    assert expert.said() == (
        "LLAMA_EXPERT_SLOT is not a setting. Did you mean LLAMA_EXPERT_SLOTS?\n"
    )
