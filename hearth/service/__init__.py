"""Being one of our services: names and ports, settings, logs, health, metrics, a graceful stop."""

import sys
from importlib import import_module

# structlog loads these where they are, for what no service uses: errors in colours, and contexts of
# green threads. 5 MB in each.
_UNUSED = [name for name in ("rich", "greenlet") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]
import_module("structlog")
for _name in _UNUSED:
    del sys.modules[_name]
