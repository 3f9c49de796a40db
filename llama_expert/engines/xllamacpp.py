"""The llama.cpp server inside the prebuilt `xllamacpp` wheel, in this process."""

import signal
import threading
from importlib import import_module
from importlib.util import find_spec

from llama_expert.job import PROMPT_CACHE_MIB, EngineFailed, EngineMissing, Job

ERRORS_ONLY = 1
"""llama.cpp's log level. From level 2 on, a complaint about a request quotes the request."""


def check() -> None:
    """Raise `EngineMissing` where the wheel is not installed."""
    if find_spec("xllamacpp") is None:
        raise EngineMissing("The package xllamacpp is not installed: pip install 'hearth[expert]'.")


def serve(job: Job) -> None:
    """Load the model and serve until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(job.path)
    params.model_alias = {job.model.name}
    params.hostnames, params.port = [job.host], job.port
    params.api_keys = [job.key]
    params.n_parallel, params.n_ctx = job.slots, job.context * job.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = job.threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.endpoint_metrics = params.endpoint_slots = True
    params.verbosity = ERRORS_ONLY
    params.ui = False
    # No page of another origin may call an expert, not even one that has the key.
    params.cors_origins, params.cors_origins_explicit, params.cors_credentials = "", True, False
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise EngineFailed(f"llama.cpp does not load {job.path}.") from error
    stop.wait()
    del server  # ends its threads, which interrupts active answers
