"""Prompts found by tags and words."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from pipecatapp.records.tasks import query_of
from pipecatapp.workflow import Prompt


def find_prompts(
    prompts: Iterable[Prompt], words: str = "", tags: Sequence[str] = ()
) -> list[Prompt]:
    """Those that apply to a set of tags (all of a prompt's tags are in it), or all without one; of
    them those that have one of the words, the best first.
    """
    applying = [one for one in prompts if not tags or one.tags <= {*tags}]
    asked = query_of(words)
    if not asked:
        return sorted(applying, key=lambda one: one.id)
    known = {one.id: one for one in applying}
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(
            """CREATE VIRTUAL TABLE prompt USING fts5 (
            id UNINDEXED, body, tags, tokenize = 'unicode61 remove_diacritics 2')"""
        )
        rows = [
            (one.id, f"{one.id.replace('-', ' ')} {one.text}", " ".join(sorted(one.tags)))
            for one in applying
        ]
        index.executemany("INSERT INTO prompt VALUES (?, ?, ?)", rows)
        sql = "SELECT id FROM prompt WHERE prompt MATCH ? ORDER BY bm25(prompt, 0, 1, 4), id"
        return [known[id] for (id,) in index.execute(sql, (asked,))]
