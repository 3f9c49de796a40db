"""aider's edit coders on answers: runs in aider's own environment, without its user interface.

Reads a JSON list of `{coder, file, answer}` from standard input and writes the list of the files
afterwards, null where aider refuses. Files are read and written as aider does by default: all line
ends become those of the platform.
"""

import json
import sys
from typing import Any

from aider.coders.editblock_coder import EditBlockCoder
from aider.coders.udiff_coder import UnifiedDiffCoder
from aider.coders.wholefile_coder import WholeFileCoder

PATH = "module.py"
CODERS = {"search": EditBlockCoder, "diff": UnifiedDiffCoder, "whole": WholeFileCoder}


class Files:
    """The one file, in place of aider's terminal and disk."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read_text(self, _path: str) -> str:
        return self.text

    def write_text(self, _path: str, text: str) -> None:
        self.text = text

    def tool_error(self, *_words: str) -> None:
        """aider says here what it refuses."""

    tool_warning = tool_output = tool_error


def applied(case: dict[str, str]) -> str | None:
    """The file afterwards."""
    coder: Any = object.__new__(CODERS[case["coder"]])
    coder.io = Files(case["file"].replace("\r\n", "\n"))
    coder.fence = ("````", "````") if "````" in case["answer"] else ("```", "```")
    coder.abs_fnames, coder.root = {__file__}, "."
    coder.partial_response_content = case["answer"]
    coder.shell_commands = []
    coder.abs_root_path = lambda _path: __file__
    coder.get_rel_fname = lambda _path: PATH
    coder.get_inchat_relative_files = lambda: [PATH]
    coder.get_multi_response_content_in_progress = lambda: case["answer"]
    before = coder.io.text
    try:
        edits = coder.get_edits()
        coder.apply_edits(edits)
    except (ValueError, IndexError):
        return None
    text: str = coder.io.text
    return None if text == before else text


if __name__ == "__main__":
    json.dump([applied(case) for case in json.load(sys.stdin)], sys.stdout)
