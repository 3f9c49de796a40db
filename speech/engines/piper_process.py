"""Piper in a process of its own: `python -m speech.engines.piper_process VOICE.onnx`.

Piper is free under the GPL; what it does for us it does here, at the other end of a pipe, and
nothing else of ours is loaded. On standard input comes one JSON object a line,
`{"text": …, "speed": …}`. On standard output go blocks, each with its length in four bytes (big
endian) before it: first the greeting `{"rate": …}`, then for each line the samples (signed 16 bit,
little endian), and an empty block at the end of each line.
"""

import json
import sys
from pathlib import Path
from typing import BinaryIO

from piper import PiperVoice, SynthesisConfig


def main() -> None:
    """Say what is asked for until standard input ends."""
    # What the libraries print must not get between the blocks.
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    voice = PiperVoice.load(Path(sys.argv[1]))
    for _ in voice.synthesize("Ready."):
        pass
    write(out, json.dumps({"rate": voice.config.sample_rate}).encode())
    for line in sys.stdin:
        asked = json.loads(line)
        pace = SynthesisConfig(length_scale=1 / asked["speed"])
        for chunk in voice.synthesize(asked["text"], pace):
            if chunk.audio_int16_bytes:
                write(out, chunk.audio_int16_bytes)
        write(out, b"")


def write(out: BinaryIO, block: bytes) -> None:
    """One block with its length before it."""
    out.write(len(block).to_bytes(4, "big") + block)
    out.flush()


if __name__ == "__main__":
    main()
