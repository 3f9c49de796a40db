"""Errors in OpenAI's shape."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hearth.service.http_errors import Refused
from moe_gateway.errors import waits
from moe_gateway.requests.error_mapping import relayed


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
            "invalid_request_error",
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
    error = json.loads(relayed(400, body)[1])["error"]

    assert (error["message"], error["type"], error["code"]) == (message, kind, code)
    assert "param" in error


def test_fields_of_a_servers_error_survive() -> None:
    """llama-server says how long the prompt was."""
    body = b'{"error": {"message": "m", "type": "t", "n_prompt_tokens": 9}}'

    assert json.loads(relayed(400, body)[1])["error"]["n_prompt_tokens"] == 9


TRACE = (
    "\\n---\\nWhile executing CallExpression at line 47:\\n...\\n   ^\\nError: Jinja Exception: "
)


@pytest.mark.parametrize(
    ("status", "words", "told", "param", "message"),
    [
        (500, "Failed to parse tools: Missing tool type: 7", 400, "tools", "Failed to parse tools"),
        (500, "Failed to parse messages: Missing 'role'", 400, "messages", "Missing 'role'"),
        (500, "image input is not supported - hint: mmproj", 400, "messages", "`vision`"),
        (500, f"{TRACE}Roles must alternate", 400, "messages",
         "The model's template refuses the conversation: Roles must alternate"),
        (500, "[json.exception.parse_error.101] bad byte", 400, None, "bad byte"),
        (501, "This server does not support embeddings.", 400, "model", "capability `embeddings`"),
        (501, "This server does not support reranking.", 400, "model", "capability `rerank`"),
        (500, "CUDA error: out of memory", 500, None, "CUDA error: out of memory"),
        (503, "Failed to parse tools: x", 503, None, "Failed to parse tools: x"),
        (400, "Field 'n': [json.exception.type_error.302] is x", 400, "n", "Field 'n': is x"),
        (400, "'messages' is required", 400, "messages", "'messages' is required"),
        (400, "Invalid tool_choice: perhaps", 400, "tool_choice", "perhaps"),
        (400, "JSON schema error at #: unrecognized type", 400, "response_format", "unrecognized"),
        (400, "Anything else.", 400, None, "Anything else."),
    ],
)  # fmt: skip
def test_mistake_of_a_caller_is_told_as_one(
    status: int, words: str, told: int, param: str | None, message: str
) -> None:
    """A server that calls it its own failure would be asked three times, and be shut to others."""
    body = b'{"error": {"code": %d, "message": "%s", "type": "server_error"}}'
    became, data = relayed(status, body % (status, words.encode()))
    error = json.loads(data)["error"]

    assert (became, error["param"]) == (told, param)
    assert message in error["message"]
    assert (error["type"] == "invalid_request_error") is (told != status)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_type_follows_the_status(status: int, kind: str) -> None:
    """Programs tell a wrong request from a broken server by it."""
    assert Refused(status, "c", "m").body()["error"]["type"] == kind


@pytest.mark.parametrize(
    ("name", "told", "passed"),
    [
        (b"retry-after", b"3", b"3"),
        (b"retry-after", b"3600", b"60"),
        (b"retry-after", b"1e30", b"60"),
        (b"retry-after", b"0.2", b"1"),
        (b"retry-after", b"-5", b"0"),
        (b"retry-after-ms", b"2500", b"2500"),
        (b"retry-after-ms", b"3600000", b"60000"),
        (b"retry-after-ms", b"-1", b"0"),
        (b"retry-after", b"Sun, 22 Nov 2020 10:00:00 GMT", b"0"),
        (b"retry-after", b"nan", None),
        (b"retry-after", b"inf", None),
        (b"retry-after", b"soon", None),
        (b"retry-after-ms", b"Sun, 22 Nov 2099 10:00:00 GMT", None),
        (b"x-other", b"3600", None),
    ],
)
def test_no_server_sends_a_client_to_sleep(name: bytes, told: bytes, passed: bytes | None) -> None:
    """openai-node sleeps an hour, if it is told an hour, and its program looks dead."""
    assert waits([(name, told)]) == ([] if passed is None else [(name, passed)])


def test_date_to_wait_for_becomes_seconds() -> None:
    """The server's clock and the client's need not agree."""
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True).encode()

    assert waits([(b"retry-after", later)]) == [(b"retry-after", b"60")]
