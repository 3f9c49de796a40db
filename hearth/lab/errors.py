"""What can keep the lab from doing what it is asked.

LabError
├── NotRoot            only root can boot hosts
├── NoNamespaces       root may not do here what a lab needs
├── PackagesMissing    a program of the lab is not installed
├── NoMirror           apt of this machine has no source of Debian
├── SystemUnknown      hosts cannot begin with a system of that name
├── NameUnfit          a lab, a layer or a number of hosts that cannot be
├── NoLab              no lab of that name is up
├── NoNode             the lab has no such host
├── LayerMissing       no golden layer of that name was saved
├── LayerExists        a golden layer of that name was saved before
├── LayerInUse         something is built on that golden layer
├── ProgramFailed      a program that the lab runs ended with an error
├── NoPower            a host that must run is off
└── BootFailed         a host did not come up

Every message is one sentence with its remedy: it is all that a person sees.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path


class LabError(Exception):
    """Do what the message says; `hearth lab down` always clears up."""


class NotRoot(LabError):
    """Run the command as root, for example with `sudo`."""

    def __init__(self) -> None:
        super().__init__("Only root can boot hosts: run this again with sudo.")


class NoMirror(LabError):
    """Name a mirror in the setting, or add a source of Debian to apt."""

    def __init__(self, title: str) -> None:
        super().__init__(
            f"The apt of this machine has no source of Debian, which hosts with {title} need: set"
            " HEARTH_LAB_MIRROR to the address of a mirror."
        )


class SystemUnknown(LabError):
    """Choose one of the systems that the message names."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"The lab has no system {name!r}: choose one of {', '.join(known)}.")


class NoNamespaces(LabError):
    """Use a machine, or a virtual one; most containers keep their root from it."""

    def __init__(self) -> None:
        super().__init__(
            "This root may not make namespaces and mount in them, as in most containers: use a "
            "machine, or a virtual one."
        )


class PackagesMissing(LabError):
    """Install the named Debian packages on this machine."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        names = " ".join(packages)
        super().__init__(
            f"The lab needs Debian's {names}: run `apt-get install {names}` as root, "
            "then this again."
        )


class NameUnfit(LabError):
    """Choose another name, or another number of hosts, as the message says."""


class NoLab(LabError):
    """Start it with `hearth lab up`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No lab {name!r} is up: start it with `hearth lab up 3 --name {name}`.")


class NoNode(LabError):
    """Name a host that the lab has; `hearth lab status` lists them."""

    def __init__(self, node: str, *, known: Sequence[str]) -> None:
        self.node = node
        near = get_close_matches(node, known, n=1)
        question = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
        super().__init__(f"The lab has no host {node!r}: {question}")


class LayerMissing(LabError):
    """Save it first with `hearth lab save`, or name one that was saved."""

    def __init__(self, layer: str, *, known: Sequence[str]) -> None:
        self.layer = layer
        there = f"there are {', '.join(known)}" if known else "none was saved yet"
        super().__init__(f"There is no layer {layer!r}: {there}.")


class LayerExists(LabError):
    """Choose another name, or remove the layer with `hearth lab drop`."""

    def __init__(self, layer: str) -> None:
        self.layer = layer
        super().__init__(
            f"A layer {layer!r} was saved before: choose another name, or remove it with "
            f"`hearth lab drop {layer}`."
        )


class LayerInUse(LabError):
    """End the lab that is built on the layer with `hearth lab down`, or drop that layer first."""

    def __init__(self, layer: str, user: Path) -> None:
        self.layer, self.user = layer, user
        super().__init__(f"The layer {layer!r} cannot be removed: {user} is built on it.")


class ProgramFailed(LabError):
    """Read what the program said, which the message ends with."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        self.command, self.code, self.output = tuple(command), code, output
        said = "\n".join(output.strip().splitlines()[-15:])
        super().__init__(f"`{' '.join(command)}` failed with {code}:\n{said}")


class NoPower(LabError):
    """Switch the host on with `hearth lab reboot`."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"{node} is off: switch it on with `hearth lab reboot {node}`.")


class BootFailed(LabError):
    """Read the end of the host's console, which the message ends with."""

    def __init__(self, node: str, console: str) -> None:
        self.node = node
        super().__init__(f"{node} does not come up; the end of its console:\n{console}")
