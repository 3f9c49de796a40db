"""Being one of our services: names and ports, settings, logs, health, metrics, a graceful stop."""

import sys
from importlib import import_module

if "rich" not in sys.modules:
    # structlog loads it where it is, for a way to show errors that no service uses: 4 MB in each.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import_module("structlog")
    del sys.modules["rich"]
