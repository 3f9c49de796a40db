"""Keys, sessions, and pages of other origins."""

from starlette.requests import Request

from pipecatapp.api.access import SESSION_SECONDS, Access


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw})


def test_each_key_opens_and_nothing_else_does() -> None:
    """People have one key, our services another."""
    access = Access(["sk-people", "sk-services"])

    assert access.opens(b"sk-people")
    assert access.opens(b"sk-services")
    assert not access.opens(b"")
    assert not access.opens(b"sk-peoplE")
    assert not access.opens("schlüssel".encode())


def test_session_ends_after_its_time() -> None:
    """A stolen cookie is not worth a key for ever."""
    clock = Clock()
    access = Access(["k"], clock=clock)
    cookie = access.new_session()

    assert access.knows_session(cookie)
    clock.now += SESSION_SECONDS + 1
    assert not access.knows_session(cookie)


def test_session_is_refused_when_anything_in_it_was_changed() -> None:
    """The expiry lies in the browser; the signature is what makes it ours."""
    access = Access(["k"])
    version, expiry, nonce, signature = access.new_session().split(".")

    for forged in (
        f"{version}.{int(expiry) + 1}.{nonce}.{signature}",
        f"{version}.{expiry}.{nonce}x.{signature}",
        f"{version}.{expiry}.{nonce}.{signature[:-1]}",
        f"{version}.{expiry}.{nonce}.",
        "",
        "...",
        "ü.ü.ü.ü",
    ):
        assert not access.knows_session(forged), forged


def test_session_of_another_key_is_unknown() -> None:
    """Changing the key logs everybody out."""
    assert not Access(["new"]).knows_session(Access(["old"]).new_session())


def test_request_of_another_origin_is_not_from_our_page() -> None:
    """A page on another port of this machine shares our cookies, so the port counts."""
    access = Access(["k"], public_origin="https://home.lan")
    host = "127.0.0.1:8000"

    assert access.own_page(request(host=host))
    assert access.own_page(request(host=host, origin=f"http://{host}"))
    assert access.own_page(request(host=host, origin="https://home.lan"))
    assert not access.own_page(request(host=host, origin="http://127.0.0.1:9000"))
    assert not access.own_page(request(host=host, origin="null"))
    assert not access.own_page(request(host=host, origin=""))
    assert not access.own_page(request(host=host, sec_fetch_site="same-site"))
