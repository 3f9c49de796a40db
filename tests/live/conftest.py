"""Access to a gateway that runs already."""

import ssl
from collections.abc import Iterator

import httpx2
import openai
import pytest

from hearth.settings import Settings

NO_GATEWAY = "There is no live gateway: set HEARTH_TEST_LIVE_URL and HEARTH_TEST_LIVE_KEY_FILE."
SECONDS = 240.0
"""A small machine may need minutes for an answer."""


@pytest.fixture(scope="session")
def live() -> Iterator[openai.OpenAI]:
    """OpenAI's client of the live gateway; tests that need it are skipped if none is named."""
    settings = Settings.load()
    if not settings.test_live_url or settings.test_live_key_file is None:
        pytest.skip(NO_GATEWAY)
    key = settings.test_live_key_file.read_text(encoding="ascii").strip()
    # The certificate of a cluster is trusted if the system trusts its authority.
    http = httpx2.Client(verify=ssl.create_default_context(), timeout=SECONDS, trust_env=False)
    with openai.OpenAI(
        base_url=settings.test_live_url, api_key=key, max_retries=0, http_client=http
    ) as client:
        yield client


@pytest.fixture(scope="session")
def experts(live: openai.OpenAI) -> list[str]:
    """Names of the models that the gateway lists and that are neither agent nor workflow."""
    names = [model.id for model in live.models.list()]
    return [name for name in names if name not in ("agent", "auto") and "/" not in name]
