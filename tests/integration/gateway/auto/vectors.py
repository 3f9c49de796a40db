"""`python -m tests.integration.gateway.auto.vectors PORT MODEL`: the small model as an expert that
gives vectors and does not talk."""

import signal
import sys
import threading

import xllamacpp


def main(port: str, path: str) -> None:
    """Serve until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = path, {"smollm2-vectors"}
    params.hostnames, params.port = ["127.0.0.1"], int(port)
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_parallel = params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity, params.ui = 1, False
    server = xllamacpp.Server(params)
    stop.wait()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
