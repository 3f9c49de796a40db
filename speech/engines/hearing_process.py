"""A speech-to-text engine in a separate process: `hearing_process ENGINE FOLDER THREADS`.

It sends an empty JSON object after it has transcribed a warm-up sample. Each request is two blocks,
a JSON object with the `language` and the samples (32-bit floats, little endian, `HEARING_RATE`);
the answer is a JSON object for each segment as soon as it is known, and an empty block. An error
ends the process: its message goes to standard error, which is the service's log.
"""

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import numpy as np

from hearth.service.logs import configure_logs
from hearth.service.names import SPEECH_STT
from speech.audio import HEARING_RATE
from speech.blocks import read, standard_pipe, write


def main() -> None:
    """Hear what is sent until standard input ends."""
    configure_logs(SPEECH_STT)
    source, out = standard_pipe()
    engine, folder, threads = sys.argv[1:]
    # Only this one: the other one may not be installed.
    module = import_module(f"speech.engines.{engine.replace('-', '_')}")
    model = module.load(Path(folder), int(threads))
    for _ in model.hear(np.zeros(HEARING_RATE, np.float32), None):
        pass
    write(out, b"{}")
    while (asked := read(source)) is not None and (sound := read(source)) is not None:
        samples = np.frombuffer(sound, "<f4")
        for segment in model.hear(samples, json.loads(asked)["language"]):
            write(out, json.dumps(asdict(segment)).encode())
        write(out, b"")


if __name__ == "__main__":
    main()
