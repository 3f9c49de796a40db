"""The engine of the unit tests, here with more than one process, and with trouble."""

from tests.unit.workflow.conftest import open_engine

__all__ = ["open_engine"]
