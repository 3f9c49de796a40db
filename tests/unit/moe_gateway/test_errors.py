"""Errors in OpenAI's shape."""

import json

import pytest

from moe_gateway.errors import Refused, relayed


@pytest.mark.parametrize(
    ("body", "message", "kind", "code"),
    [
        (
            b'{"error": {"code": 400, "message": "No.", "type": "invalid_request_error"}}',
            "No.",
            "invalid_request_error",
            None,
        ),
        (
            b'{"error": {"code": 400, "message": "Long.", "type": "exceed_context_size_error"}}',
            "Long.",
            "exceed_context_size_error",
            "context_length_exceeded",
        ),
        (
            b'{"error": {"message": "No.", "type": "x", "code": "quota", "param": "n"}}',
            "No.",
            "x",
            "quota",
        ),
        (b'{"detail": "Not found"}', "Not found", "invalid_request_error", None),
        (b'{"error": "wordy"}', "wordy", "invalid_request_error", None),
        (b"<html>", "<html>", "invalid_request_error", None),
        (b"", "HTTP 400", "invalid_request_error", None),
    ],
)
def test_error_of_a_server_gets_openais_shape(
    body: bytes, message: str, kind: str, code: str | None
) -> None:
    """Clients show `error.message`, whatever server stands behind the gateway."""
    error = json.loads(relayed(400, body))["error"]

    assert (error["message"], error["type"], error["code"]) == (message, kind, code)
    assert "param" in error


def test_fields_of_a_servers_error_survive() -> None:
    """llama-server says how long the prompt was."""
    body = b'{"error": {"message": "m", "type": "t", "n_prompt_tokens": 9}}'

    assert json.loads(relayed(400, body))["error"]["n_prompt_tokens"] == 9


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_type_follows_the_status(status: int, kind: str) -> None:
    """Programs tell a wrong request from a broken server by it."""
    assert json.loads(Refused(status, "c", "m").body())["error"]["type"] == kind
