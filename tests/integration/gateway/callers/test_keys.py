"""`hearth keys` and the running gateway: what a person sets holds a second later."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.openai_api.testing import ScriptedModel
from hearth.service.state import StateDir
from moe_gateway.keys.cli import commands
from moe_gateway.keys.keyring import LOOK_SECONDS
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.conftest import CHAT, KEY, Lab, caller, chat, send_raw, wait_until

Hearth = Callable[..., Result]


@pytest.fixture
def hearth(tmp_path: Path) -> Hearth:
    """`hearth("list")` is `hearth keys list` on a state directory of its own."""
    app = typer.Typer()
    commands(app)
    state = ["--state-dir", str(tmp_path / "state")]
    return lambda *words: CliRunner().invoke(app, ["keys", *words, *state])


@pytest.fixture
def gateway(lab: Lab, tmp_path: Path) -> httpx2.Client:
    (tmp_path / "state").mkdir(mode=0o700)
    model = ScriptedModel()
    model.when("go").say("one two three")
    return lab.gateway(
        lab.expert(model, slots=4), lab.agent(ScriptedModel("agent", "workflow/x")),
        key_store=tmp_path / "state" / "keys.db",
    )  # fmt: skip


def listed(hearth: Hearth) -> dict[str, Any]:
    rows = json.loads(hearth("list", "--json").output)["keys"]
    return {row["name"]: row for row in rows}


def refusals(gateway: httpx2.Client) -> float:
    """How many requests were refused for what they are."""
    lines = gateway.get("/metrics").text.splitlines()
    counts = [one for one in lines if one.startswith("moe_gateway_requests_total{")]
    return sum(float(one.split()[-1]) for one in counts if 'status="4xx"' in one)


def looked_again(gateway: httpx2.Client) -> None:
    """Wait until the gateway has looked at the keys once more, by its own account."""
    now = datetime.now(UTC)
    wait_until(lambda: _as_of(gateway) > now, 60)


def _as_of(gateway: httpx2.Client) -> datetime:
    return datetime.fromisoformat(gateway.get("/api/keys").json()["as_of"])


def test_key_opens_and_closes_without_a_restart(gateway: httpx2.Client, hearth: Hearth) -> None:
    """No restart, and no minute in which a lost tablet still gets answers: the gateway's next look
    at the keys, which comes every second, takes the change."""
    key = hearth("add", "tablet").output.strip()
    with caller(str(gateway.base_url), key) as tablet:
        looked_again(gateway)
        opened = tablet.post(CHAT, json=chat("go"))
        hearth("revoke", "tablet")
        looked_again(gateway)
        closed = tablet.post(CHAT, json=chat("go"))

    assert key.startswith("sk-hearth-")
    assert (opened.status_code, closed.status_code) == (200, 401)
    assert LOOK_SECONDS <= 1
    assert listed(hearth)["tablet"]["revoked"]
    assert key not in hearth("list").output


def test_key_sees_and_gets_only_its_models(gateway: httpx2.Client, hearth: Hearth) -> None:
    """A child's tablet talks to the small model and to no workflow that opens the door."""
    key = hearth("add", "tablet", "--model", "small").output.strip()
    with caller(str(gateway.base_url), key) as tablet:
        wait_until(lambda: tablet.get("/v1/models").status_code == 200)
        models = [model["id"] for model in tablet.get("/v1/models").json()["data"]]
        answers = {name: tablet.post(CHAT, json=chat("go", name)) for name in ("small", "agent")}
        auto = tablet.post(CHAT, json=chat("go", "auto"))
        one = [tablet.get(f"/v1/models/{name}").status_code for name in ("small", "agent")]

    assert models == ["small"]
    assert one == [200, 403]
    assert answers["small"].status_code == 200
    assert answers["agent"].status_code == auto.status_code == 403
    assert answers["agent"].json()["error"]["code"] == "model_not_allowed"


def test_what_a_key_used_is_counted_and_its_budget_ends_it(
    gateway: httpx2.Client, hearth: Hearth
) -> None:
    """A budget that a restart forgets is none, so it is counted in the file."""
    key = hearth("add", "tablet", "--tokens-per-day", "8").output.strip()
    with caller(str(gateway.base_url), key) as tablet:
        wait_until(lambda: tablet.get("/v1/models").status_code == 200)
        answers = [tablet.post(CHAT, json=chat("go")) for _ in range(3)]
        last = answers[-1]
        wait_until(lambda: listed(hearth)["tablet"]["today"] == {"requests": 2, "tokens": 8})

        hearth("limit", "tablet", "--tokens-per-day", "100")
        wait_until(lambda: tablet.post(CHAT, json=chat("go")).status_code == 200)

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert last.json()["error"]["code"] == "insufficient_quota"
    assert last.headers["x-should-retry"] == "false"
    assert "retry-after" not in last.headers


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_vectors_cost_what_was_read(gateway: httpx2.Client, hearth: Hearth, encoding: str) -> None:
    """A code base that is turned into vectors each night is most of what a house reads."""
    key = hearth("add", "indexer").output.strip()
    asked = {"model": "small", "input": ["one two", "three"], "encoding_format": encoding}
    with caller(str(gateway.base_url), key) as indexer:
        wait_until(lambda: indexer.get("/v1/models").status_code == 200)
        indexer.post("/v1/embeddings", json=asked).raise_for_status()
        metrics = gateway.get("/metrics").text
        wait_until(lambda: listed(hearth)["indexer"]["today"] == {"requests": 1, "tokens": 3})

    assert 'moe_gateway_key_requests_total{key="indexer"} 1.0' in metrics
    for kind, count in (("prompt", 3.0), ("completion", 0.0)):
        assert f'moe_gateway_key_tokens_total{{key="indexer",kind="{kind}"}} {count}' in metrics


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_pays_for_what_was_said(lab: Lab, tmp_path: Path, *, stream: bool) -> None:
    """Its server tells the cost with the last word only: a budget would never end of who stops
    reading before it. What broke for other reasons, before its caller got a word, costs nothing."""
    model, store = ScriptedModel(stops_unary=False), KeyStore(tmp_path / "keys.db")
    model.when("go").hang("word " * 60, after=50)
    model.when("broken").lose("word " * 60, after=50)
    gateway = lab.gateway(lab.expert(model, slots=4, stops_unary=False), key_store=store.path)
    key = store.add("tablet", Limits())

    def tokens() -> int:
        keys = gateway.get("/api/keys").json()["keys"]
        return int(keys[0]["today"]["tokens"])

    with caller(str(gateway.base_url), key) as tablet:
        wait_until(lambda: tablet.get("/v1/models").status_code == 200)
        broken = tablet.post(CHAT, json=chat("broken"))
        with send_raw(gateway, chat("go " * 40, stream=stream), key=key):
            model.wait_until(lambda m: m.words_sent >= 100)
        wait_until(lambda: tokens() > 0)

    assert broken.status_code == 502
    assert 40 <= tokens() <= 90, "30 for the question, 50 for the answer"


def test_client_does_not_ask_again_when_the_budget_is_spent(
    gateway: httpx2.Client, hearth: Hearth
) -> None:
    """It would sleep and ask three times what is refused until midnight."""
    key = hearth("add", "tablet", "--tokens-per-day", "1").output.strip()
    with (
        caller(str(gateway.base_url), key) as tablet,
        openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=key) as client,
    ):
        wait_until(lambda: tablet.post(CHAT, json=chat("go")).status_code == 200)
        before = refusals(gateway)
        with pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": "go"}]
            )

    assert refused.value.code == "insufficient_quota"
    assert refusals(gateway) == before + 1


@pytest.mark.parametrize("counted", ["requests", "tokens"])
def test_what_is_used_in_a_minute_is_counted(
    gateway: httpx2.Client, hearth: Hearth, counted: str
) -> None:
    """A loop that got out of hand is slowed down, and told for how long."""
    key = hearth("add", "tablet").output.strip()
    hearth("limit", "tablet", f"--{counted}-per-minute", "1")
    with caller(str(gateway.base_url), key) as tablet:
        looked_again(gateway)
        answers = [tablet.post(CHAT, json=chat("go")) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error"]["code"] == f"{counted}_per_minute"
    assert 1 <= int(answers[1].headers["retry-after"]) <= 60


def test_keys_that_cannot_be_read_go_on_opening(
    gateway: httpx2.Client, hearth: Hearth, remote: Hearth, tmp_path: Path
) -> None:
    """A disk that fails closes nobody out; who looks at the keys meanwhile is told what is wrong,
    and what was used is written down when the file is there again."""
    key, file = hearth("add", "tablet").output.strip(), tmp_path / "state" / "keys.db"
    with caller(str(gateway.base_url), key) as tablet:
        wait_until(lambda: tablet.post(CHAT, json=chat("go")).status_code == 200)
        wait_until(lambda: listed(hearth)["tablet"]["today"]["requests"] == 1)
        (tmp_path / "folder").mkdir()
        aside = file.rename(tmp_path / "aside")
        file.unlink(missing_ok=True)  # the gateway may have made it in this moment
        (tmp_path / "folder").rename(file)
        answer = tablet.post(CHAT, json=chat("go"))
        shown, told = gateway.get("/api/keys"), remote("list")
        looked_for = datetime.now(UTC)
        file.rmdir()
        aside.rename(file)
        wait_until(lambda: _as_of(gateway) > looked_for)

    assert answer.status_code == 200
    assert shown.status_code == 503
    assert shown.json()["error"]["code"] == "keys_unreadable"
    assert "x-request-id" in shown.headers
    assert "keys.db cannot be used: unable to open database file." in told.output
    assert listed(hearth)["tablet"]["today"]["requests"] == 2


@pytest.fixture
def remote(gateway: httpx2.Client, tmp_path: Path) -> Hearth:
    """The same commands for the gateway at its address, with the house's own key."""
    app = typer.Typer()
    commands(app)
    where = ["--gateway", str(gateway.base_url), "--key-file", str(tmp_path / "key")]
    return lambda *words: CliRunner().invoke(app, ["keys", *words, *where])


@pytest.mark.parametrize(
    ("kind", "came"),
    [
        ("application/x-www-form-urlencoded", "was sent as application/x-www-form-urlencoded"),
        ("text/plain; charset=utf-8", "was sent as text/plain"),
        (None, "was sent without this header"),
    ],
)
def test_body_that_is_not_sent_as_json_is_told_the_header(
    gateway: httpx2.Client, kind: str | None, came: str
) -> None:
    """curl's `-d` sends a form, and who types a key's name there first has done nothing wrong."""
    headers = {"content-type": kind} if kind else {}
    body = json.dumps({"name": "kitchen"}).encode()
    answer = gateway.post("/api/keys", content=body, headers=headers)

    assert answer.status_code == 415
    told = answer.json()["error"]["message"]
    assert f"with the header Content-Type: application/json. It {came}." in told
    as_json = gateway.post("/api/keys", content=b"[]", headers={"content-type": "application/json"})
    assert "Content-Type" not in as_json.json()["error"]["message"]


def test_keys_of_a_gateway_elsewhere_are_managed_with_the_same_commands(
    gateway: httpx2.Client, hearth: Hearth, remote: Hearth
) -> None:
    """A cluster's keys lie on one of its machines, and people sit at another one. What the gateway
    was told itself holds at once."""
    name = "Anna's tablet / 2"
    key = remote("add", name, "--model", "small", "--scope", "exec").output.strip()
    made = listed(remote)
    with caller(str(gateway.base_url), key) as tablet:
        opened = tablet.get("/v1/models").status_code
        remote("limit", name, "--tokens-per-day", "9")
        limited = listed(remote)
        said = remote("revoke", name)
        closed = tablet.get("/v1/models").status_code

    assert (opened, closed) == (200, 401)
    assert made == {name: {**made[name], "models": ["small"], "scopes": ["exec"]}}
    assert (limited[name]["models"], limited[name]["tokens_per_day"]) == (["*"], 9)
    assert said.exit_code == 0
    assert listed(remote) == listed(hearth)
    assert listed(hearth)[name]["revoked"]


def test_what_is_wrong_at_a_gateway_elsewhere_is_one_sentence(
    gateway: httpx2.Client, remote: Hearth, tmp_path: Path
) -> None:
    """A wrong address, a key without the scope, a name that is taken or unknown."""
    url, own = str(gateway.base_url), tmp_path / "guest"
    own.write_text(remote("add", "guest").output)
    with caller(url, own.read_text().strip()) as guest:
        wait_until(lambda: guest.get("/v1/models").status_code == 200)
    taken, unknown = remote("add", "guest"), remote("revoke", "nobody")
    app = typer.Typer()
    commands(app)
    nobody = ["--gateway", "http://127.0.0.1:9", "--key-file", str(own)]
    away = CliRunner().invoke(app, ["keys", "list", *nobody])
    weak = CliRunner().invoke(app, ["keys", "list", "--gateway", url, "--key-file", str(own)])
    bare = CliRunner().invoke(app, ["keys", "list", "--gateway", url])

    ended = (taken, unknown, away, weak, bare)
    assert [one.exit_code for one in ended] == [1] * 5
    assert "There is a key 'guest' already." in taken.output
    assert "There is no key 'nobody'" in unknown.output
    assert "The gateway at http://127.0.0.1:9" in away.output
    assert "scope 'admin'" in weak.output
    assert "--key-file FILE" in bare.output
    assert all("Traceback" not in one.output for one in ended)


def house_names(tmp_path: Path) -> set[str]:
    """Of the files with the keys of the house, on one machine and on a cluster."""
    state = StateDir(tmp_path)
    job = (Path(__file__).parents[4] / "nomad_jobs" / "moe-gateway.nomad.hcl").read_text()
    (files,) = re.findall(r"MOE_GATEWAY_KEY_FILES\s+= (.*)", job)
    return {state.key_file.name, state.service_key_file.name, *re.findall(r"}/(\w+)", files)}


def test_names_of_the_house_are_given_to_nobody(
    gateway: httpx2.Client, hearth: Hearth, remote: Hearth, tmp_path: Path
) -> None:
    """The agent is told who asks by the name of the key: with this one it would be the house."""
    names = house_names(tmp_path)
    ended = [way("add", name) for name in names for way in (hearth, remote)]
    answers = [gateway.post("/api/keys", json={"name": name}) for name in names]

    assert names == {"key", "service_key", "people", "services"}
    assert {one.exit_code for one in ended} == {1}
    assert all("The house's own key has the name" in one.output for one in ended)
    assert {answer.status_code for answer in answers} == {409}
    assert {answer.json()["error"]["code"] for answer in answers} == {"name_taken"}
    assert listed(hearth) == {}


def test_name_of_any_file_with_a_key_is_taken(lab: Lab, tmp_path: Path) -> None:
    """Who sets up the gateway alone calls those files as they like."""
    for name in ("mine", "agents"):
        (tmp_path / name).write_text(f"{KEY}-{name}\n")
    files = [tmp_path / "key", tmp_path / "mine", tmp_path / "agents"]
    gateway = lab.gateway(key_files=files, key_store=tmp_path / "keys.db")

    taken = gateway.post("/api/keys", json={"name": "agents"})
    made = gateway.post("/api/keys", json={"name": "agent"})

    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "name_taken")
    assert "The house's own key has the name 'agents'" in taken.json()["error"]["message"]
    assert made.status_code == 201


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("revoke", "nobody"), "There is no key 'nobody': see `hearth keys list`."),
        (("limit", "nobody"), "There is no key 'nobody': see `hearth keys list`."),
    ],
)
def test_unknown_name_is_one_sentence(hearth: Hearth, words: tuple[str, ...], said: str) -> None:
    """A typing error must not look like success."""
    ended = hearth(*words)

    assert ended.exit_code == 1
    assert said in ended.output
    assert "Traceback" not in ended.output
