"""The tool `value`."""

from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

VALUE = TOOLS["value"]


@pytest.mark.parametrize("given", [None, 12, "12", 1.5, True, [], {"a": [1, {"b": None}]}])
async def test_value_keeps_what_it_was_given(given: Any) -> None:
    """A number must not become a text, nor a text a number, on its way through a workflow."""
    told = await VALUE.check(Context(), {"value": given})

    assert told == {"value": given}
    assert type(told["value"]) is type(given)
