"""Projects with tests, and an environment with pytest in which they are run."""

import asyncio
from pathlib import Path

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context
from tests.support.projects import wheels


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Environments of code.install, made of wheels of the test cache."""
    return wheels.packages(tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="session")
def with_pytest(environments: Packages) -> str:
    """The id of an environment with pytest."""
    return asyncio.run(environments.install([wheels.PYTEST])).id


@pytest.fixture
def project(tmp_path: Path, environments: Packages) -> Context:
    """A call with an empty workspace, the sandbox and the environments."""
    (tmp_path / "work").mkdir()
    services: dict[type, object] = {Sandbox: Sandbox(), Packages: environments}
    return Context(workspace=tmp_path / "work", services=services)
