"""Prompts and workflows from folders."""

from pathlib import Path

import pytest

from pipecatapp.application.documents.files import Library, load_prompt
from pipecatapp.workflow import InvalidDocument


def test_prompt_has_the_tags_of_its_front_matter() -> None:
    """A workflow asks for prompts by their tags."""
    prompt = load_prompt("---\ntags: [agent, short]\n---\n\nBe brief.\n", file="p/brief.md")

    assert (prompt.id, prompt.tags, prompt.text) == (
        "brief",
        frozenset({"agent", "short"}),
        "Be brief.",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Be brief.", "begins with"),
        ("---\ntags: [a]\n---\n", "begins with"),
        ("---\ntags: []\n---\nx", "needs `tags`"),
        ("---\ntag: [a]\n---\nx", "needs `tags`"),
        ("---\ntags: [a]\nfor: me\n---\nx", "unknown key 'for'"),
        ("---\ntags: [a\n---\nx", "not valid YAML"),
    ],
)
def test_prompt_without_right_front_matter_is_refused(text: str, said: str) -> None:
    """A prompt that no tag can find would be lost in silence."""
    with pytest.raises(InvalidDocument, match=said):
        load_prompt(text, file="p.md")


def test_wrong_document_of_a_person_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    """One typing mistake must not keep the whole service from starting."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "good.md").write_text("---\ntags: [a]\n---\nx", encoding="utf-8")
    (tmp_path / "prompts" / "bad.md").write_text("x", encoding="utf-8")
    library = Library()

    library.add_folder(tmp_path)

    assert list(library.prompts) == ["good"]
