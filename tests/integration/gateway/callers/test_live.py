"""`make test-live`: tests of a gateway that runs, which never pass without one."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import KEY
from tests.rules.tree import ROOT


def outcomes(report: Path, **settings: str) -> tuple[int, Counter[str], str]:
    """Run the live tests; return the exit code, how many ended how, and what was printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("HEARTH_TEST_")
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/live", f"--junitxml={report}"],
        cwd=ROOT, env=environment | settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    cases = ElementTree.parse(report).iter("testcase")
    found = Counter(next((part.tag for part in case), "passed") for case in cases)
    return ended.returncode, found, ended.stdout


@pytest.mark.proves("001-03")
def test_live_tests_run_with_a_gateway_and_never_pass_without_one(
    house: House, tmp_path: Path
) -> None:
    """A green run that asked no gateway would be believed."""
    for model in (house.small, house.big):
        model.when(lambda _request: True).say("Hello to you.")
    key = tmp_path / "key"
    key.write_text(KEY)
    named = {
        "HEARTH_TEST_LIVE_URL": f"{house.gateway.base_url}".rstrip("/") + "/v1",
        "HEARTH_TEST_LIVE_KEY_FILE": str(key),
    }
    code, live, printed = outcomes(tmp_path / "live.xml", **named)
    asked = len(house.small.requests) + len(house.big.requests)
    _, skipped, reasons = outcomes(tmp_path / "none.xml")
    dead, failed, _ = outcomes(
        tmp_path / "dead.xml", **named | {"HEARTH_TEST_LIVE_URL": "http://127.0.0.1:9/v1"}
    )

    assert (code, set(live)) == (0, {"passed"}), printed
    assert asked >= 5
    assert set(skipped) == {"skipped"}
    assert skipped["skipped"] == live["passed"]
    assert "There is no live gateway: set HEARTH_TEST_LIVE_URL" in reasons
    assert dead != 0
    assert "passed" not in failed
