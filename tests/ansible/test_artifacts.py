"""What we install of others is pinned."""

import re
from pathlib import Path
from typing import Any

import pytest

from hearth.release.errors import ArtifactUnknown, ChecksumMissing
from hearth.release.pins import pin
from tests.ansible import tree

FILE = tree.ROOT / "group_vars" / "all" / "artifacts.yaml"
ARTIFACTS: dict[str, Any] = tree.load(FILE)["artifacts"]
OLD, NEW = "a" * 64, "b" * 64
PINNED = f"""\
# Kept by people.
artifacts:
  nomad:
    version: 2.0.7
    checksums: https://example.org/nomad/2.0.7/nomad_2.0.7_SHA256SUMS
    archives:
      amd64:
        url: https://example.org/nomad/2.0.7/nomad_2.0.7_linux_amd64.zip
        sha256: {OLD}
      arm64:
        url: https://example.org/nomad/2.0.7/nomad_2.0.7_linux_arm64.zip
        sha256: {OLD}
"""


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_program_is_pinned_for_both_architectures(name: str) -> None:
    """A home lab mixes machines; what is fetched for them is checked by its sum."""
    archives = ARTIFACTS[name]["archives"]

    assert set(archives) == {"amd64", "arm64"}
    for archive in archives.values():
        assert re.fullmatch(r"[0-9a-f]{64}", archive["sha256"])
        assert archive["url"].startswith("https://")
        assert ARTIFACTS[name]["version"] in archive["url"]
    assert len({archive["sha256"] for archive in archives.values()}) == 2


def test_pin_takes_the_sums_that_the_vendor_publishes(tmp_path: Path) -> None:
    """A sum that is typed by hand is one that nobody has checked."""
    file = tmp_path / "artifacts.yaml"
    file.write_text(PINNED)
    published = f"{NEW}  nomad_2.1.0_linux_amd64.zip\n{OLD}  nomad_2.1.0_linux_arm64.zip\n"

    digests = pin(file, "nomad", "2.1.0", get=lambda url: published)

    assert digests == {"amd64": NEW, "arm64": OLD}
    text = file.read_text()
    assert text.startswith("# Kept by people.\n")
    assert "2.0.7" not in text
    assert tree.load(file)["artifacts"]["nomad"]["archives"]["amd64"]["sha256"] == NEW


def test_pin_writes_nothing_when_an_architecture_has_no_sum(tmp_path: Path) -> None:
    """Half a pin would install an unchecked program on half of the machines."""
    file = tmp_path / "artifacts.yaml"
    file.write_text(PINNED)

    with pytest.raises(ChecksumMissing, match="arm64"):
        pin(file, "nomad", "2.1.0", get=lambda url: f"{NEW}  nomad_2.1.0_linux_amd64.zip\n")

    assert file.read_text() == PINNED


def test_pin_of_an_unknown_program_suggests_the_near_one(tmp_path: Path) -> None:
    """A typing mistake costs one look, not a search."""
    file = tmp_path / "artifacts.yaml"
    file.write_text(PINNED)

    with pytest.raises(ArtifactUnknown, match="Did you mean 'nomad'"):
        pin(file, "nomda", "2.1.0", get=lambda url: "")
