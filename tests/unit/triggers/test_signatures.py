"""Who may start a run by a webhook."""

import base64
import hmac

import pytest

from pipecatapp.application.triggers.signatures import (
    SIGNATURES,
    TOLERANCE,
    NotSigned,
    Signature,
    check_signature,
    delivery_id,
    new_secret,
)

NOW = 1614265330.0
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,old v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_BODY = b'{"test": 2432232314}'


def is_accepted(
    signature: Signature, secret: str, headers: dict[str, str], body: bytes, now: float = NOW
) -> bool:
    try:
        check_signature(signature, secret, headers, body, now)
    except NotSigned:
        return False
    return True


def test_published_example_of_standard_webhooks_is_accepted() -> None:
    """Senders compute signatures with libraries of the standard, not with ours."""
    assert is_accepted("standard", STANDARD_SECRET, STANDARD, STANDARD_BODY)


def test_published_example_of_github_is_accepted() -> None:
    """The example is in GitHub's page about the validation of deliveries."""
    signed = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": signed}
    assert is_accepted("github", "It's a Secret to Everybody", headers, b"Hello, World!")
    assert not is_accepted("github", "It's a Secret to Everybody", headers, b"Hello, World?")


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        ({}, STANDARD_BODY, NOW),
        (STANDARD, b'{"test": 1}', NOW),
        (STANDARD | {"webhook-id": "msg_other"}, STANDARD_BODY, NOW),
        (STANDARD | {"webhook-timestamp": "1614265331"}, STANDARD_BODY, NOW),
        (STANDARD | {"webhook-signature": "v2,g0hM9SsE+OTPJTGt"}, STANDARD_BODY, NOW),
        (STANDARD, STANDARD_BODY, NOW + TOLERANCE + 1),
    ],
)
def test_changed_or_old_delivery_is_refused(
    headers: dict[str, str], body: bytes, now: float
) -> None:
    """Whoever has read one delivery can neither change it nor send it again later."""
    assert not is_accepted("standard", STANDARD_SECRET, headers, body, now)


@pytest.mark.parametrize("time", ["", "soon", "²", "-5", "9" * 5000])
def test_time_that_is_no_number_is_refused(time: str) -> None:
    """A sender without a clock must not end in an error of ours."""
    signed = hmac.digest(b"secret", f"1.{time}.".encode(), "sha256")
    headers = {
        "webhook-id": "1",
        "webhook-timestamp": time,
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }
    assert not is_accepted("standard", "secret", headers, b"")


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer wrong", "Basic secret", "secret"])
def test_wrong_bearer_is_refused(sent: str) -> None:
    """A device that cannot sign still has to know the secret."""
    assert is_accepted("bearer", "secret", {"authorization": "bearer secret"}, b"")
    assert not is_accepted("bearer", "secret", {"authorization": sent}, b"")


def test_each_kind_has_secrets_that_nobody_guesses() -> None:
    """Two triggers never share a secret."""
    for signature in SIGNATURES:
        made = {new_secret(signature) for _ in range(20)}
        assert len(made) == 20
        assert min(map(len, made)) >= 43


def test_id_of_a_delivery_is_the_senders() -> None:
    """A delivery that is sent again has to be recognized, whoever sends it."""
    assert delivery_id({"webhook-id": "a", "idempotency-key": "b"}) == "a"
    assert delivery_id({"x-github-delivery": "x" * 300}) == "x" * 200
    assert delivery_id({"webhook-id": ""}) is None
