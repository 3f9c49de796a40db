"""Common parts of all services: names, ports, settings, logs, health, metrics, graceful stop."""

import sys
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

# structlog imports these if they are installed, for features that no service uses: coloured errors
# and contexts of green threads. They take 5 MB in each service.
_UNUSED = [name for name in ("rich", "greenlet") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]
import_module("structlog")
for _name in _UNUSED:
    del sys.modules[_name]


class _Commands(ModuleType):
    """A replacement of uvicorn's command line with click and the reloader, which no service uses
    and which take 1.7 MB in each. `uvicorn.run` is loaded when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name == "Server":
            return import_module("uvicorn.server").Server
        if name in ("main", "run"):
            return partial(self._called, name)
        raise AttributeError(name)

    def _called(self, name: str, *arguments: Any, **options: Any) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)(*arguments, **options)


if "uvicorn" not in sys.modules:
    sys.modules["uvicorn.main"] = _Commands("uvicorn.main")
