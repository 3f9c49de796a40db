"""Piper in a separate process: `python -m speech.engines.piper_process VOICE.onnx`.

Piper is licensed under the GPL; it runs only here, at the other end of a pipe, and of our code
only `speech.blocks` is loaded. Each request is a block with a JSON object,
`{"text": …, "speed": …}`. It greets with `{"rate": …}`; each answer is the samples in blocks
(signed 16 bit, little endian) and an empty block.
"""

import json
import sys
import traceback
from pathlib import Path
from types import TracebackType

from piper import PiperVoice, SynthesisConfig

from speech.blocks import read, standard_pipe, write


def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """One line of the service's log, as `hearth.service.logs` writes them."""
    told = json.dumps("".join(traceback.format_exception(error)))
    sys.stderr.write(f"level=critical event=process_broke engine=piper exception={told}\n")


def main() -> None:
    """Synthesise the requested texts until standard input ends."""
    sys.excepthook = tell
    source, out = standard_pipe()
    voice = PiperVoice.load(Path(sys.argv[1]))
    for _ in voice.synthesize("Ready."):
        pass
    write(out, json.dumps({"rate": voice.config.sample_rate}).encode())
    while (block := read(source)) is not None:
        asked = json.loads(block)
        pace = SynthesisConfig(length_scale=1 / asked["speed"])
        for chunk in voice.synthesize(asked["text"], pace):
            if chunk.audio_int16_bytes:
                write(out, chunk.audio_int16_bytes)
        write(out, b"")


if __name__ == "__main__":
    main()
