"""Errors that prevent an instance from running on this machine.

LocalError
├── StateError
│   ├── StateUnusable    the state directory cannot be written
│   ├── StateTooNew      a newer Hearth wrote it
│   └── StateDamaged     its version or its ledger cannot be read
├── AlreadyRuns          an instance is running on this state directory
├── PortTaken            another program listens on a port of a service
├── DiskFull             the disk is full
├── StopFailed           the running instance does not end
├── NoLog                no service of that name has written a log
├── UnknownService       no service of that name is running
├── NoExpert             the instance has no expert whose model can be changed
├── ClusterUnknown       the cluster cannot be reached from here
├── SecretsClosed        the secrets of the cluster cannot be decrypted
└── ServiceError
    ├── StartFailed      a service ended, or did not become healthy, while starting
    ├── NotReplaced      a service did not become healthy in place of another
    └── ServiceGaveUp    a service ended again and again

Every message is one sentence with its remedy, because it is all that a user sees. Errors of model
files are in `hearth.models.errors`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path


class LocalError(Exception):
    """Do what the message says; `hearth doctor` checks everything else."""


class StateError(LocalError):
    """Choose another directory with `--state-dir`, or correct this one as the message says."""


class StateUnusable(StateError):
    """Give the directory to the user who runs Hearth, or choose another with `--state-dir`."""

    def __init__(self, root: Path, reason: str) -> None:
        self.root = root
        super().__init__(
            f"The state directory {root} cannot be used ({reason}): make it writable for the user "
            "that runs Hearth, or choose another one with --state-dir."
        )


class StateTooNew(StateError):
    """Update Hearth, or choose another directory with `--state-dir`; nothing was changed."""

    def __init__(self, root: Path, *, found: int, known: int) -> None:
        self.root, self.found, self.known = root, found, known
        super().__init__(
            f"The state directory {root} was written by a newer Hearth (its version is {found}, "
            f"this Hearth supports up to {known}): update Hearth, or choose another directory with "
            "--state-dir."
        )


class StateDamaged(StateError):
    """Restore the named file, from `backups/` if need be, or choose another directory."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file = file
        super().__init__(
            f"The file {file} is damaged ({reason}): restore it from a backup, such as one in "
            f"{file.parent / 'backups'}, or choose another state directory with --state-dir."
        )


class AlreadyRuns(LocalError):
    """Use the running instance, stop it with `hearth down`, or start another one."""

    def __init__(self, root: Path, *, where: str, stop: str) -> None:
        self.root = root
        super().__init__(
            f"Hearth is already running on {root} ({where}): use it, stop it with `{stop}`, or "
            "start another instance with a different --state-dir and --port-base."
        )


class PortTaken(LocalError):
    """Stop the program that listens there, or start on other ports with `--port-base`."""

    def __init__(self, port: int, service: str, *, holder: str, free_base: int | None) -> None:
        self.port, self.service = port, service
        other = f"--port-base {free_base}" if free_base is not None else "another --port-base"
        super().__init__(
            f"Port {port}, which {service} needs, is taken by {holder}: stop that program, or "
            f"start Hearth with {other}."
        )


class StopFailed(LocalError):
    """End the named process yourself, then run `hearth doctor`."""

    def __init__(self, root: Path, reason: str) -> None:
        self.root = root
        super().__init__(
            f"The instance on {root} cannot be stopped ({reason}): end it yourself, then run "
            "`hearth doctor`."
        )


class NoLog(LocalError):
    """Choose a service that has run on this state directory, or none to see all."""

    def __init__(self, service: str, *, known: Sequence[str]) -> None:
        self.service = service
        near = get_close_matches(service, known, n=1)
        question = f"did you mean {near[0]}?" if near else f"logs exist of {', '.join(known)}."
        if not known:
            question = "no service has run yet."
        super().__init__(f"There is no log of {service!r}: {question}")


class UnknownService(LocalError):
    """Choose one of the services that `hearth status` shows."""

    def __init__(self, service: str, known: Sequence[str]) -> None:
        self.service = service
        super().__init__(f"There is no service {service!r}: choose one of {', '.join(known)}.")


class NoExpert(LocalError):
    """Start the instance with `hearth up`, which runs an expert."""

    def __init__(self) -> None:
        super().__init__("This instance has no expert whose model can be changed.")


class ClusterUnknown(LocalError):
    """Select a running cluster with `-i INVENTORY` or the settings `HEARTH_CLUSTER_…`."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The cluster cannot be reached ({reason}): name another inventory with -i, or set "
            "HEARTH_CLUSTER_URL and HEARTH_CLUSTER_KEY_FILE."
        )


class SecretsClosed(LocalError):
    """Set HEARTH_VAULT_PASSWORD_FILE to a file with the password of the secrets."""

    def __init__(self, inventory: Path, reason: str) -> None:
        super().__init__(
            f"The secrets of {inventory} are encrypted and {reason}: write their password to a"
            " file that only you can read and set HEARTH_VAULT_PASSWORD_FILE to its path, or run"
            " this in a terminal, which asks for the password."
        )


class DiskFull(LocalError):
    """Free some space, or choose a directory on another disk with `--state-dir`."""

    def __init__(self, root: Path, *, free: int, needed: int) -> None:
        self.root, self.free, self.needed = root, free, needed
        super().__init__(
            f"The disk of {root} has {free / 1e6:.0f} MB free and Hearth needs "
            f"{needed / 1e6:.0f} MB: free some space, or choose a directory on another disk with "
            "--state-dir."
        )


class ServiceError(LocalError):
    """Read the service's last lines, which are shown above, and its log: `hearth logs NAME`."""

    def __init__(self, message: str, service: str, evidence: Sequence[str]) -> None:
        self.service, self.evidence = service, tuple(evidence)
        super().__init__(message)


class StartFailed(ServiceError):
    """Correct the error in the service's last lines. All services were stopped."""

    def __init__(self, service: str, reason: str, *, log: Path, evidence: Sequence[str]) -> None:
        super().__init__(
            f"{service} did not start ({reason}), so everything was stopped. Correct the error in "
            f"its last lines; the whole log is in {log}.",
            service,
            evidence,
        )


class NotReplaced(ServiceError):
    """Read the service's log. The previous service was started again."""

    def __init__(
        self, service: str, before: str, reason: str, *, log: Path, evidence: Sequence[str]
    ) -> None:
        super().__init__(
            f"{service} did not start ({reason}), so {before} was started again. "
            f"Read the log in {log}.",
            service,
            evidence,
        )


class ServiceGaveUp(ServiceError):
    """Correct the error in the service's last lines; restarting it did not help."""

    def __init__(
        self, service: str, reason: str, *, deaths: int, log: Path, evidence: Sequence[str]
    ) -> None:
        super().__init__(
            f"{service} ended {deaths} times within a minute (last: {reason}), so everything was "
            f"stopped. Correct the error in its last lines; the whole log is in {log}.",
            service,
            evidence,
        )
