"""The API against its own document: requests that fit it and requests that do not."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import DataObject, data
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.api.speech import Speech
from tests.integration.gateway.conftest import KEY, Lab

CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip
FIT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
OPERATIONS = [
    ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"), ("POST", "/v1/images/generations"),
    ("POST", "/v1/responses"), ("GET", "/v1/responses/{response_id}"),
    ("DELETE", "/v1/responses/{response_id}"),
    ("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/audio/transcriptions"), ("POST", "/v1/audio/speech"),
    ("GET", "/v1/models"), ("GET", "/v1/models/{name}"), ("GET", "/api/experts"),
    ("POST", "/api/chat"), ("POST", "/api/generate"), ("POST", "/api/embed"),
    ("POST", "/api/embeddings"), ("GET", "/api/tags"), ("GET", "/api/ps"), ("GET", "/api/version"),
    ("POST", "/api/show"), ("POST", "/api/pull"), ("POST", "/api/push"), ("POST", "/api/create"),
    ("POST", "/api/copy"), ("DELETE", "/api/delete"),
    ("GET", "/health"), ("GET", "/health/live"), ("GET", "/metrics"),
    ("GET", "/api/keys"), ("POST", "/api/keys"), ("GET", "/api/keys/self"),
    ("PUT", "/api/keys/{name}"), ("DELETE", "/api/keys/{name}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The document as the gateway itself tells it."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        gateway = lab.gateway(
            lab.expert(ScriptedModel(), slots=64, embeddings=True, images=True),
            lab.at(lab.serve(Speech("stt")), speech="stt"),
            lab.at(lab.serve(Speech("tts")), speech="tts"),
            key_store=folder / "keys.db",
        )
        document = gateway.get("/openapi.json").json()
        # Nearly every name is unknown; so that more than 404 is seen, some are known.
        text = json.dumps(document).replace(
            '"description": "A model; see /v1/models"', '"enum": ["small", "auto", "whisper-1", ""]'
        )
        loaded = schemathesis.openapi.from_dict(json.loads(text))
        loaded.config.update(base_url=str(gateway.base_url))
        yield loaded


def test_every_operation_of_the_document_is_tried(schema: Any) -> None:
    """One that is added and not listed above would be promised and never held to it."""
    told = {(one.ok().method.upper(), one.ok().path) for one in schema.get_all_operations()}

    assert told == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *[(*operation, FIT) for operation in OPERATIONS],
        *[(*one, WRONG) for one in OPERATIONS if one[0] != "GET" or "{name}" in one[1]],
    ],
)
def test_answers_are_those_of_the_document(
    schema: Any, method: str, path: str, mode: GenerationMode
) -> None:
    """Whatever is sent, the answer has a status, a type and a shape that a client can expect."""
    operation = schema[path][method]
    cases = operation.as_strategy(generation_mode=mode)

    @settings(
        max_examples=12, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data())
    def run(drawn: DataObject) -> None:
        case = drawn.draw(cases)
        case.headers = {"authorization": f"Bearer {KEY}"}
        answer = case.call()
        case.validate_response(answer, checks=CHECKS)
        assert answer.headers["x-hearth-route"]

    run()
