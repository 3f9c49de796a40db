"""Steps that speak and hear, with the real voices and ears behind the real gateway."""

from contextlib import ExitStack
from pathlib import Path

from hearth.openai_api.client import ModelClient
from tests.integration.gateway.conftest import KEY, Lab
from tests.integration.speech.conftest import Speech, speech, speech_models, word_errors
from tests.integration.tools.conftest import Opened

__all__ = ["speech", "speech_models"]

TEXT = "The library opens at nine in the morning."
NOTICE = """
kind: workflow
id: notice
about: A text is spoken, and what was spoken is heard.
inputs: {text: text}
steps:
  - {id: say, use: speech.say, with: {text: "{{ inputs.text }}", path: notices/library.mp3}}
  - {id: hear, use: speech.hear, with: {path: "{{ say.path }}"}, needs: [say]}
outputs: {text: "{{ hear.text }}", size: "{{ say.size }}"}
"""


async def test_step_speaks_into_a_file_and_another_hears_it(
    opened: Opened, speech: Speech, tmp_path: Path
) -> None:
    """A workflow makes an announcement, or takes a dictation, like any other file."""
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path)
        key = str(speech.key_file)
        gateway = lab.gateway(
            lab.at(speech.stt, speech="stt", key_file=key),
            lab.at(speech.tts, speech="tts", key_file=key),
        )
        async with (
            ModelClient(f"{gateway.base_url}/v1", KEY) as client,
            opened(NOTICE, services={ModelClient: client}) as engine,
        ):
            run = await engine.start("notice", {"text": TEXT})
            result = await engine.wait(run)

    assert result.status == "done", result.error
    assert int(result.outputs["size"]) > 5000
    assert word_errors(TEXT, str(result.outputs["text"])) <= 0.25
