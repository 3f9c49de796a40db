"""What a conversation leaves where nothing of it is to be kept."""

from pipecatapp.api.voice.runner import UNKEPT, forget
from pipecatapp.application.retention import remove
from pipecatapp.workflow import Engine
from tests.unit.workflow.conftest import OpenEngine, open_engine

__all__ = ["open_engine"]
ECHO = "id: echo\ninputs: {text: text}\nsteps: [{id: say, use: log.append, with: {line: hello}}]\n"


async def test_run_that_was_pruned_meanwhile_keeps_no_other(open_engine: OpenEngine) -> None:
    """Somebody tidies up while another talks: the rest of the talk must go all the same."""
    engine: Engine = await open_engine(ECHO)
    runs = [await engine.start("echo", {"text": "x"}, caller=UNKEPT) for _ in range(2)]
    for run in runs:
        await engine.wait(run)
    await remove(engine, runs[:1])

    await forget(engine, runs)

    assert engine.runs() == []
