"""What a playbook stops with is explained on the page that people look at then."""

from pathlib import Path

import pytest

from hearth.cluster.errors import (
    BootstrapLost,
    ClusterError,
    Conflict,
    Denied,
    JobFailed,
    JobInvalid,
    SecretsUnusable,
    Unreachable,
    Untrusted,
)
from tests.rules import tree

PAGE = tree.text(Path("docs/troubleshooting.md"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unreachable("https://x:4646", "refused"), "Nobody answers at https://"),
        (Untrusted("https://x:4646", "expired"), "cannot be trusted ("),
        (Denied("https://x", 403, "no"), Denied.remedy),
        (Conflict("https://x", 409, "no"), Conflict.remedy),
        (BootstrapLost("Consul", "https://x", ""), "was set up before, and the token in the"),
        (SecretsUnusable(Path("x"), "no"), "cannot be used: "),
        (JobInvalid("x", "no"), "is not a valid job: "),
        (JobFailed("x", "was not deployed (why)", []), "was not deployed ("),
    ],
)
def test_message_is_found_on_the_page_about_troubles(error: ClusterError, words: str) -> None:
    """Whoever searches the page for what stopped them must find it in the same words."""
    assert words in str(error)
    assert words in PAGE
