"""Every tool of the app. A tool that is not in this list does not exist."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pipecatapp.tools.clock import time
from pipecatapp.tools.cluster import status
from pipecatapp.tools.memory import conversation, note
from pipecatapp.tools.model import llm
from pipecatapp.workflow import Tool

TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            llm.llm,
            time.now,
            status.status,
            note.save,
            note.find,
            conversation.recall,
        )
    }
)
