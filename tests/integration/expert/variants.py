"""Build llama.cpp as the role does by default: with a library for every generation of processors.

That takes three times as long as the tree of the other tests, so it has an entry of the test cache
of its own and only tests of the extended ring use it.
"""

import shutil
import sys
from pathlib import Path

from tests import cache
from tests.integration.expert import build_engines

FLAGS: list[str] = build_engines.LLAMA["__llama_cpp_flags_variants"]
TABLE: list[dict[str, str]] = build_engines.LLAMA["__llama_cpp_cpu_variants"]["x86_64"]


def build() -> Path:
    """Return the folder of the programs and libraries."""
    parts: list[cache.Part] = [
        build_engines.LOCK,
        *build_engines.LLAMA_FLAGS,
        *FLAGS,
        *build_engines.LLAMA_TARGETS,
    ]
    made = cache.entry("engines-variants", parts, lambda place: Variants(place).run())
    return made / "llama.cpp" / "bin"


class Variants(build_engines.Build):
    """One build into a folder of the test cache."""

    def run(self) -> None:
        """Compile llama.cpp; keep nothing but the result."""
        build_engines.run(sys.executable, "-m", "venv", str(self._folder / "venv"))
        text = build_engines.LOCK.read_text(encoding="utf-8")
        compiled, tools = build_engines.split_lock(text)
        self._install_tools(tools)
        source = self._fetch_source("llama-cpp-python", compiled["llama-cpp-python"])
        flags = build_engines.LLAMA_FLAGS + FLAGS
        self._compile(source, flags, build_engines.LLAMA_TARGETS, "llama.cpp")
        for folder in ("work", "venv"):
            shutil.rmtree(self._folder / folder)
