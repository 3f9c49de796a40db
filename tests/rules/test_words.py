"""Texts are written in plain technical English: `words.BANNED` lists phrases to avoid."""

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.rules import tree, words


class Exception_(NamedTuple):
    """Lines with banned phrases that are permitted."""

    files: str
    line: str
    reason: str
