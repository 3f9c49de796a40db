"""The catalogue: what is in it, and what is refused."""

import re
from pathlib import Path

import pytest

from hearth.models.catalogue import (
    FALLBACK,
    Catalogue,
    UrlSource,
    count,
    safe_url,
    shipped_catalogue,
)
from hearth.models.errors import CatalogueInvalid, UnknownModel
from tests.shown import Shown

ENTRY = """\
models:
  tiny:
    about: A model for tests.
    source:
      kind: url
      url: https://example.org/tiny.gguf
    file: tiny.gguf
    sha256: abababababababababababababababababababababababababababababababab
    license: MIT
    parameters: 1M
    context: 512
    chat_template: embedded
    tools: none
    ram_bytes: 1000
    origin: https://example.org/tiny
"""


@pytest.fixture
def shipped() -> Catalogue:
    return Catalogue.load()


@pytest.mark.proves("004-47")
def test_catalogue_offers_open_models_from_half_a_billion_to_thirty(shipped: Catalogue) -> None:
    """Whatever the machine, there is something for it that may be used for anything."""
    sizes = sorted(count(model.parameters) / 1e9 for model in shipped.models.values())

    assert {model.license for model in shipped.models.values()} <= {"Apache-2.0", "MIT"}
    assert len([size for size in sizes if 0.45 <= size <= 31]) >= 10
    assert sizes[-1] > 30


def test_every_file_of_the_catalogue_is_pinned(shipped: Catalogue) -> None:
    """A hash that is used twice, or that is no hash, was never compared with a file."""
    hashes = [model.sha256 for model in shipped.models.values()]

    assert len(set(hashes)) == len(hashes)
    assert all(len(set(sha256)) > 8 for sha256 in hashes)


def test_every_address_of_the_catalogue_ends_in_its_file(shipped: Catalogue) -> None:
    """An entry copied from its neighbour would fetch the neighbour's file."""
    wrong = [
        model.name
        for model in shipped.models.values()
        if isinstance(model.source, UrlSource) and not model.source.url.endswith("/" + model.file)
    ]

    assert wrong == []


def test_every_model_needs_more_memory_than_its_file(shipped: Catalogue) -> None:
    """The file is all in memory, and the attention cache comes on top."""
    wrong = [m.name for m in shipped.models.values() if (m.size_bytes or 0) >= m.ram_bytes]

    assert wrong == []


def test_catalogue_is_data_that_ansible_can_read_too(shipped: Catalogue) -> None:
    """It lies in group_vars: a Jinja expression would be one thing there and another here."""
    assert not re.search(r"\{\{|\{%", shipped_catalogue().read_text(encoding="utf-8"))


def test_last_resort_is_the_smallest_model(shipped: Catalogue) -> None:
    """The end of every expert's list must run where nothing else does."""
    smallest = min(shipped.models.values(), key=lambda model: model.ram_bytes)

    assert smallest.name == FALLBACK


@pytest.mark.parametrize(
    ("gigabytes", "name"),
    [(0.5, None), (2, "qwen2.5-0.5b"), (16, "qwen3-8b"), (64, "qwen3-30b-a3b")],
)
def test_best_fit_is_the_largest_that_leaves_room_and_answers_at_reading_speed(
    shipped: Catalogue, gigabytes: float, name: str | None
) -> None:
    """What `hearth up` recommends has to work well on that very machine."""
    best = shipped.best_fit(int(gigabytes * 1e9))

    assert (best and best.name) == name


def test_unknown_model_is_answered_with_the_one_that_was_meant(shipped: Catalogue) -> None:
    """A slip of the finger costs one look, not a search."""
    with pytest.raises(UnknownModel, match=r"no model 'smolm2'\. Did you mean smollm2\?"):
        shipped["smolm2"]


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("    sha256:", "    sha265:", ":8: models.tiny.sha265: Extra inputs"),
        ("kind: url", "kind: ulr", ":4: models.tiny.source: Input tag 'ulr'"),
        ("https://example", "http://example", ":6: models.tiny.source.url.url: Value error, the"),
        ("context: 512", "context: few", ":11: models.tiny.context: Input should be a valid int"),
        ("file: tiny.gguf", "file: ../../tiny.gguf", ":7: models.tiny.file: String should match"),
        ("    license: MIT\n", "", ":2: models.tiny.license: Field required"),
        ("  tiny:\n", "  tiny:\n    about: twice\n", ":4: found duplicate key"),
        ("models:", "modelz:", ":1: modelz: Extra inputs"),
        ("models:", "- models", ":"),
    ],
)
def test_mistake_in_the_catalogue_is_named_with_its_line(
    tmp_path: Path, right: str, wrong: str, place: str
) -> None:
    """People add models by hand; they must see where they slipped."""
    file = tmp_path / "models.yaml"
    file.write_text(ENTRY.replace(right, wrong, 1), encoding="utf-8")

    with pytest.raises(CatalogueInvalid) as caught:
        Catalogue.load(file)

    assert f"{file}{place}" in str(caught.value)


@pytest.mark.parametrize("entry", ["3", "{files: 3}", "{files: {model.onnx: 3}}", "[]"])
def test_mistake_in_speech_is_named_too(tmp_path: Path, entry: str) -> None:
    """Every form of a slip is a line of the file, never a traceback."""
    file = tmp_path / "models.yaml"
    file.write_text(f"{ENTRY}speech:\n  ears: {entry}\n", encoding="utf-8")

    with pytest.raises(CatalogueInvalid, match=r"models\.yaml:\d+: speech\.ears"):
        Catalogue.load(file)


def test_missing_catalogue_is_said_in_one_line(tmp_path: Path) -> None:
    """A wrong path must not look like a broken program."""
    with pytest.raises(CatalogueInvalid, match=r"no\.yaml:1: cannot be read: No such file"):
        Catalogue.load(tmp_path / "no.yaml")


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://example.org/a", True),
        ("http://example.org/a", False),
        ("http://127.0.0.1:80/a", True),
        ("http://[::1]/a", True),
        ("http://localhost/a", True),
        ("http://localhost.example.org/a", False),
        ("ftp://127.0.0.1/a", False),
        ("https:///a", False),
    ],
)
def test_only_https_and_this_machine_are_safe_sources(url: str, *, safe: bool) -> None:
    """Over plain http anybody on the way sees which model a home runs."""
    assert safe_url(url) is safe


def test_model_of_the_guide_can_be_added(tmp_path: Path, shown: Shown) -> None:
    """The block in the guide is what people copy; it must be accepted where it is pasted."""
    block = shown.take("docs/howto/models.md")
    file = tmp_path / "models.yaml"
    file.write_text(shipped_catalogue().read_text(encoding="utf-8") + block, encoding="utf-8")

    assert Catalogue.load(file)["my-model"].source.kind == "file"
