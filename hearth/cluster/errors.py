"""Errors of the cluster.

ClusterError
├── Unreachable           no agent answers at the address
│   └── Untrusted         its certificate is not of our authority
├── Refused               the agent refuses; `status` is HTTP's
│   ├── Denied            the token may not do that
│   ├── NotFound          there is no such thing
│   ├── Conflict          it was changed since it was read
│   └── NoLeader          the servers have none, for longer than the time limit
├── BootstrapLost         the access control was set up with a token that we do not have
├── JobInvalid            the job's file or its variables are wrong
├── JobFailed             the job was accepted, but does not run; `causes` tell why
├── SecretsUnusable       the file of secrets cannot be read, opened or written
└── CertificateUnusable   a certificate or key is not what it should be

A message states the error and its remedy: a failed task shows nothing else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final


class ClusterError(Exception):
    """Do what the message says; `ansible-playbook heal_cluster.yaml` looks at everything else."""


class Unreachable(ClusterError):
    """See that the agent runs (`systemctl status nomad consul`) and that the address is right."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(
            f"Nobody answers at {url} ({reason}): see on that machine with `systemctl status nomad "
            "consul` whether the agent runs, and check the address."
        )


class Untrusted(Unreachable):
    """Name the certificate authority of this cluster, or renew the machine's certificate."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.args = (
            f"The certificate of {url} cannot be trusted ({reason}): name the cluster's own "
            "authority (ca_file), or renew the certificate by running playbook.yaml.",
        )


class Refused(ClusterError):
    """Read what the agent says: it names the argument or the state that does not fit."""

    remedy = "its log tells more"

    def __init__(self, url: str, status: int, answer: str) -> None:
        self.url, self.status, self.answer = url, status, answer
        super().__init__(f"{url} answers {status}: {answer or 'nothing'} ({self.remedy}).")


class Denied(Refused):
    """Give a token that may do this; the management token is in the file of secrets."""

    remedy = "the token is missing, expired, or may not do this"


class NotFound(Refused):
    """Look at what there is (`nomad job status`, `consul catalog services`)."""

    remedy = "there is no such thing"


class Conflict(Refused):
    """Run the playbook again: it plans from what is there now."""

    remedy = "somebody else changed it in between; run this again"


class NoLeader(Refused):
    """Have a majority of the servers run and reach each other; nothing was written."""

    remedy = (
        "the servers elect a leader, or a majority of them is missing: see `systemctl status nomad "
        "consul` on each, then run this again"
    )


REFUSALS: Final[Mapping[int, type[Refused]]] = {403: Denied, 404: NotFound, 409: Conflict}


def refusal(url: str, status: int, answer: str) -> Refused:
    """Return the error for an HTTP error status."""
    return REFUSALS.get(status, Refused)(url, status, answer)


class BootstrapLost(ClusterError):
    """Follow the recipe in the message: it keeps all data, and needs root on one server."""

    def __init__(self, product: str, url: str, recipe: str) -> None:
        self.product, self.url, self.recipe = product, url, recipe
        super().__init__(
            f"The access control of {product} at {url} was set up before, and the token in the "
            f"file of secrets is not its token. Nothing was changed. {recipe}"
        )


class JobInvalid(ClusterError):
    """Correct the line of the job's file, or the variable, that the message names."""

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"{source} is not a valid job: {reason}")


class JobFailed(ClusterError):
    """Correct the cause that the message names, then run this again."""

    def __init__(self, job: str, fact: str, causes: Sequence[str]) -> None:
        self.job, self.fact, self.causes = job, fact, list(causes)
        super().__init__("\n".join([f"The job {job} {fact}.", *self.causes]))


class SecretsUnusable(ClusterError):
    """Give the right vault password, or restore the file from a backup."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"The secrets in {file} cannot be used: {reason}.")


class CertificateUnusable(ClusterError):
    """Restore the named file from a backup, or remove it so that a new one is made."""
