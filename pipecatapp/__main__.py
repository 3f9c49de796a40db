"""`python -m pipecatapp`: serve the agent until SIGTERM; restart after a restore."""

import gc
from importlib import import_module


def main() -> None:
    """Import the agent and serve it."""
    gc.disable()  # No object of an import is garbage; looking for some is an eighth of the start.
    import_module("hearth.service")  # before structlog, which would load all of rich
    import_module("pipecatapp.service").main()


if __name__ == "__main__":
    main()
