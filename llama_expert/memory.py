"""How much memory a model may take here: that of the machine, its graphics cards, its helpers."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from hearth.models.catalogue import Model
from hearth.settings import Backend

CARDS: Final = Path("/sys/class/drm")
"""Directory in which the amdgpu driver reports each card (mem_info_vram_total and _used, bytes)."""

NVIDIA: Final = ("nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits")
"""Prints the free MiB of each card, one line a card."""


def free_memory(backend: Backend) -> int:
    """Bytes that an engine of this build can have now, in the machine and on its cards."""
    available: int = psutil.virtual_memory().available
    return available + free_on_cards(backend)


def free_on_cards(backend: Backend) -> int:
    """Free bytes on the graphics cards that this build of the engine uses."""
    match backend:
        case "cpu":
            return 0
        case "cuda":
            return nvidia_free()
        case "rocm" | "vulkan":
            return amd_free(CARDS) or nvidia_free()


def nvidia_free(command: Sequence[str] = NVIDIA) -> int:
    """Free bytes on NVIDIA's cards; nothing where their driver is not there."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(int(line) << 20 for line in said.stdout.split() if line.isdecimal())


def amd_free(cards: Path) -> int:
    """Return the free bytes on AMD's cards, as the kernel reports them."""
    free = 0
    for total in sorted(cards.glob("card*/device/mem_info_vram_total")):
        used = total.with_name("mem_info_vram_used")
        free += int(total.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii"))
    return free


def too_big(model: Model, available: int) -> str | None:
    """Why the model does not fit into so many bytes of free memory."""
    if model.ram_bytes <= available:
        return None
    return f"it needs {model.ram_bytes / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are free."
