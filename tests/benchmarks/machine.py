"""On what a benchmark ran."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.service.version import hearth_version


def facts() -> dict[str, Any]:
    """Processor, cores that this process may use, load before the run, date, versions."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "hearth": hearth_version(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
