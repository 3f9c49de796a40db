"""Errors of `hearth lab`.

LabError
├── NotRoot            the user is not root
├── NoNamespaces       root cannot create namespaces here
├── PackagesMissing    a program that the lab needs is not installed
├── NoMirror           apt of this machine has no source of Debian
├── NoEmulator         this machine cannot run programs of another architecture
├── SystemUnknown      there is no system of that name for hosts
├── InvalidName        an invalid name, address or number of hosts
├── NoLab              no lab of that name is up
├── NoNode             the lab has no such host
├── SnapshotMissing    there is no snapshot of that name
├── SnapshotExists     there is already a snapshot of that name
├── SnapshotInUse      a lab or another snapshot is based on the snapshot
├── ProgramFailed      a program that the lab runs failed
├── NoPower            the host is off
└── BootFailed         a host did not start

Every message states the problem and what to do about it; the user sees nothing else.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path


class LabError(Exception):
    """Do what the message says; `hearth lab down` removes a lab in any state."""


class NotRoot(LabError):
    """Run the command as root, for example with `sudo`."""

    def __init__(self) -> None:
        super().__init__("The lab needs root: run this again with sudo.")


class NoMirror(LabError):
    """Set `HEARTH_LAB_MIRROR`, or add a source of Debian to apt."""

    def __init__(self, title: str) -> None:
        super().__init__(
            f"The apt of this machine has no source of Debian, which hosts with {title} need: set"
            " HEARTH_LAB_MIRROR to the address of a mirror."
        )


class NoEmulator(LabError):
    """Install qemu-user-static; systemd registers it with the kernel."""

    def __init__(self, title: str) -> None:
        super().__init__(
            f"This machine cannot run the programs of {title}: run `apt-get install"
            " qemu-user-static`, then `systemctl restart systemd-binfmt`."
        )


class SystemUnknown(LabError):
    """Choose one of the systems that the message names."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"The lab has no system {name!r}: choose one of {', '.join(known)}.")


class NoNamespaces(LabError):
    """Use a physical or virtual machine; most containers do not permit namespaces."""

    def __init__(self) -> None:
        super().__init__(
            "Root cannot create namespaces and mount file systems here, as in most containers: "
            "use a physical or virtual machine."
        )


class PackagesMissing(LabError):
    """Install the named Debian packages on this machine."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        names = " ".join(packages)
        super().__init__(
            f"The lab needs the Debian packages {names}: run `apt-get install {names}` as root, "
            "then try again."
        )


class InvalidName(LabError):
    """Choose another name, address or number of hosts, as the message says."""


class NoLab(LabError):
    """Start the lab with `hearth lab up`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No lab {name!r} is up: start it with `hearth lab up 3 --name {name}`.")


class NoNode(LabError):
    """Name a host of the lab; `hearth lab status` lists them."""

    def __init__(self, node: str, *, known: Sequence[str]) -> None:
        self.node = node
        near = get_close_matches(node, known, n=1)
        question = f"did you mean {near[0]}?" if near else f"its hosts are {', '.join(known)}."
        super().__init__(f"The lab has no host {node!r}: {question}")


class SnapshotMissing(LabError):
    """Create the snapshot with `hearth lab save`, or use the name of another one."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        self.name = name
        others = f"choose one of {', '.join(known)}" if known else "none has been saved yet"
        super().__init__(f"There is no snapshot {name!r}: {others}.")


class SnapshotExists(LabError):
    """Choose another name, or remove the snapshot with `hearth lab drop`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"There is already a snapshot {name!r}: choose another name, or remove it with "
            f"`hearth lab drop {name}`."
        )


class SnapshotInUse(LabError):
    """Remove the lab that uses the snapshot with `hearth lab down`, or drop the other snapshot."""

    def __init__(self, name: str, user: Path) -> None:
        self.name, self.user = name, user
        super().__init__(
            f"The snapshot {name!r} cannot be removed because {user} is based on it: remove that "
            "lab or snapshot first."
        )


class ProgramFailed(LabError):
    """Read the last lines of the program's output at the end of the message."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        self.command, self.code, self.output = tuple(command), code, output
        tail = "\n".join(output.strip().splitlines()[-15:])
        super().__init__(f"`{' '.join(command)}` failed with exit code {code}:\n{tail}")


class NoPower(LabError):
    """Switch the host on with `hearth lab reboot`."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"{node} is off: switch it on with `hearth lab reboot {node}`.")


class BootFailed(LabError):
    """Read the last lines of the host's console at the end of the message."""

    def __init__(self, node: str, console: str) -> None:
        self.node = node
        super().__init__(f"{node} did not start. The last lines of its console:\n{console}")
