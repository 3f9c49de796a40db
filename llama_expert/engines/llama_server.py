"""llama.cpp's own program `llama-server`, compiled for this machine."""

import os
import shutil
from pathlib import Path

from llama_expert.job import PROMPT_CACHE_MIB, EngineMissing, Job

PROGRAM = "llama-server"


def check(binary: Path | None) -> Path:
    """The program to run; raises `EngineMissing` where there is none."""
    if binary is not None:
        if not os.access(binary, os.X_OK):
            raise EngineMissing(f"{binary} is not a program: set LLAMA_EXPERT_LLAMA_SERVER_BINARY.")
        return binary
    found = shutil.which(PROGRAM)
    if found is None:
        raise EngineMissing(
            "llama-server is not on PATH: install llama.cpp, or name the program in"
            " LLAMA_EXPERT_LLAMA_SERVER_BINARY."
        )
    return Path(found)


def arguments(job: Job) -> list[str]:
    """Return the command line, without the program and without the key, which would be visible
    in it."""
    return [
        *("--model", str(job.path), "--alias", job.model.name),
        *("--host", job.host, "--port", str(job.port), "--api-key-file", str(job.key_file)),
        *("--parallel", str(job.slots), "--ctx-size", str(job.context * job.slots)),
        *("--threads", str(job.threads), "--threads-batch", str(job.threads)),
        *("--cache-ram", str(PROMPT_CACHE_MIB)),
        *("--metrics", "--slots", "--no-ui", "--offline"),
        *("--cors-origins", "", "--no-cors-credentials"),
        *("--log-verbosity", "1"),
        *(("--rpc", ",".join(job.workers)) if job.workers else ()),
    ]


def serve(job: Job) -> None:
    """Become the program: it handles SIGTERM and SIGINT itself."""
    binary = check(job.llama_server_binary)
    os.execv(binary, [str(binary), *arguments(job)])
