"""Secrets in the entries of MCP servers."""

from pathlib import Path

import pytest

from pipecatapp.records.secrets import SecretMissing, Secrets
from pipecatapp.tools.mcp.references import invalid_reference, resolve


def test_references_are_replaced_and_the_secrets_hidden_in_what_comes_back(tmp_path: Path) -> None:
    """A server sees the token; nobody who reads a run does."""
    secrets = Secrets(tmp_path, {"HOME_TOKEN": "sk-12345", "PIN": "12"})
    secrets.keep("wiki", "kept-secret")
    values = {"a": "Bearer ${HOME_TOKEN}", "b": "${kept:wiki}/${env:PIN}", "c": "plain $x {y}"}

    resolved = resolve(values, secrets)

    assert resolved.values == {
        "a": "Bearer sk-12345", "b": "kept-secret/12", "c": "plain $x {y}",
    }  # fmt: skip
    told = {"sk-12345": ["x sk-12345 y", 12], "b": "kept-secret", "pin": "12 eggs"}
    assert resolved.hide(told) == {"***": ["x *** y", 12], "b": "***", "pin": "12 eggs"}
    assert resolved.hide(b"the kept-secret") == b"the ***"


def test_secret_that_is_missing_or_cannot_be_sent_is_named_by_its_place(tmp_path: Path) -> None:
    """An empty or broken header would be refused by the server with a reason that misleads."""
    secrets = Secrets(tmp_path, {"LINES": "a\r\nX-Admin: yes"})

    with pytest.raises(SecretMissing, match="nothing is at kept:none"):
        resolve({"a": "${kept:none}"}, secrets)
    with pytest.raises(SecretMissing, match="env:LINES contains a line break") as caught:
        resolve({"a": "${LINES}"}, secrets)
    assert "X-Admin" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("${kept:a} ${env:B} ${C} ${file:/x}", None),
        ("${kept:A}", "kept:A"),
        ("${kept:../../key}", "kept:../../key"),
        ("${}", ""),
        ("${file:x}", "file:x"),
        ("${C:-default}", "C:-default"),
    ],
)
def test_references_to_other_places_are_refused(value: str, wrong: str | None) -> None:
    """A misread reference would send the text itself, or another file of the instance."""
    assert invalid_reference(value) == wrong
