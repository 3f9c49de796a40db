"""What counts as free memory for a model."""

from pathlib import Path

from hearth.cluster.watch import ServiceInstance
from llama_expert.memory import amd_free, free_memory, free_on_cards, nvidia_free
from llama_expert.workers import able, lent


def test_processor_build_counts_no_graphics_card() -> None:
    """A card that the engine cannot use holds no part of the model."""
    assert free_on_cards("cpu") == 0
    assert free_memory("cpu") > 0


def test_free_memory_of_all_nvidia_cards_counts() -> None:
    """The driver's own program prints MiB, one line a card."""
    assert nvidia_free(["printf", "10000\n2000\n"]) == 12_000 << 20


def test_machine_without_the_driver_has_none() -> None:
    """A model is then held to the machine's own memory."""
    assert nvidia_free(["no-such-program"]) == 0
    assert nvidia_free(["false"]) == 0


def test_free_memory_of_amd_cards_is_what_the_kernel_tells(tmp_path: Path) -> None:
    """No program of AMD's need be installed."""
    for card, total, used in (("card0", 8000, 3000), ("card1", 4000, 0)):
        device = tmp_path / card / "device"
        device.mkdir(parents=True)
        (device / "mem_info_vram_total").write_text(f"{total}\n")
        (device / "mem_info_vram_used").write_text(f"{used}\n")

    assert amd_free(tmp_path) == 9000
    assert amd_free(tmp_path / "none") == 0


def test_worker_lends_half_of_its_machine() -> None:
    """The rest is for what runs there already."""
    assert lent({"memory_bytes": "1000"}) == 500
    assert lent({}) == 0


def test_only_a_passing_worker_is_used() -> None:
    """One that does not answer ends the engine."""
    node = {"Node": "a", "Address": "10.0.0.1"}
    service = {"Service": "llama-rpc", "ID": "x", "Port": 1, "Address": "", "Tags": [], "Meta": {}}
    check = {"Name": "listens", "CheckID": "1", "Output": "", "Status": "warning"}

    entry = {"Node": node, "Service": service, "Checks": [check]}

    assert not able(ServiceInstance.of(entry))
    assert able(ServiceInstance.of(entry | {"Checks": [check | {"Status": "passing"}]}))
