"""Who answers what: facts in, decision out."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hearth.service.http_errors import Refused
from moe_gateway.routing.body import Hints, Needs, changed, look_at, needs_of
from moe_gateway.routing.choice import choose, choose_speech, known_models, undecided
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import InstanceSettings


@dataclass(frozen=True)
class Server:
    """An instance as routing sees it."""

    label: str
    expert: str | None
    names: tuple[str, ...]
    usable: bool = True
    reason: str = ""
    free: bool = True
    load: float = 0.0
    first_byte: float = 0.0
    auto: bool = True
    cost: float = 1.0
    context: int | None = None
    tools: str = "native"
    vision: bool = False
    embeddings: bool = False
    rerank: bool = False
    images: bool = False
    chat: bool = True
    structured: bool = True
    languages: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    speech: str | None = None

    @property
    def turn(self) -> tuple[bool, float, float]:
        return not self.free, self.load, self.first_byte


SMALL = Server("s1", "small", ("small", "tiny"), context=2048, tools="none")
SMALL_2 = replace(SMALL, label="s2")
BIG = Server("b1", "big", ("big",), cost=20, context=32_768)
EYES = Server("e1", "eyes", ("eyes",), cost=10, context=8192, vision=True)
VECTORS = Server("v1", "vectors", ("vectors",), cost=0.1, embeddings=True, context=512)
DRAWS = Server("d1", "draws", ("draws",), cost=0.1, images=True, chat=False)
RANKS = Server("r1", "ranks", ("ranks",), cost=0.2, rerank=True, chat=False)
CODER = Server("c1", "coder", ("coder",), cost=9, domains=("code",), languages=("en", "de"))
AUSTRIAN = replace(CODER, languages=("de-AT",))
LOOSE = Server("l1", "loose", ("loose",), cost=0.5, structured=False)
SPARED = replace(BIG, label="x1", expert="x", names=("x",), fallback=("eyes", "small"))
EARS = Server("t1", None, ("moonshine",), speech="stt")
AGENT = Server("a1", None, ("agent", "workflow/x"), cost=0.01)
ALL = [SMALL, SMALL_2, BIG, EYES, AGENT]


def sick(server: Server) -> Server:
    return replace(server, usable=False, reason="loading")


@pytest.mark.parametrize(
    ("model", "needs", "instances", "order", "reason"),
    [
        ("big", Needs(), ALL, ["b1"], "asked by name"),
        ("tiny", Needs(), ALL, ["s1", "s2"], "alias of small"),
        ("agent", Needs(), ALL, ["a1"], "asked by name"),
        ("workflow/x", Needs(), ALL, ["a1"], "asked by name"),
        ("small", Needs(tools=True), ALL, ["s1", "s2"], "asked by name"),
        ("small", Needs(), [replace(SMALL, load=0.5), SMALL_2], ["s2", "s1"], "asked by name"),
        ("small", Needs(), [sick(SMALL), SMALL_2], ["s2"], "asked by name"),
        ("auto", Needs(), ALL, ["s1", "s2", "e1", "b1"], "auto: cheapest of 3"),
        ("auto", Needs(tools=True), ALL, ["e1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(vision=True), ALL, ["e1"], "auto: the only one that can"),
        ("auto", Needs(tokens=2000), ALL, ["e1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(tokens=8000), ALL, ["e1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(tokens=9000), ALL, ["b1"], "auto: the only one that can"),
        ("auto", Needs(tokens=99_000), ALL, ["b1", "e1", "s1", "s2"], "auto: largest context"),
        ("auto", Needs(), [sick(SMALL), BIG], ["b1"], "auto: cheapest of 2; small is not ready"),
        ("auto", Needs(), [sick(SMALL), SMALL_2, sick(BIG)], ["s2"], "auto: cheapest of 2"),
        ("auto", Needs(embeddings=True), [BIG, VECTORS], ["v1"], "auto: the only one that can"),
        ("auto", Needs(rerank=True), [BIG, VECTORS, RANKS], ["r1"], "auto: the only one that can"),
        ("auto", Needs(images=True), [BIG, DRAWS], ["d1"], "auto: the only one that can"),
        ("auto", Needs(), [BIG, DRAWS], ["b1"], "auto: the only one that can"),
        ("auto", Needs(), [replace(BIG, cost=1), SMALL], ["b1", "s1"], "auto: cheapest of 2"),
        ("auto", Needs(), [replace(SMALL, load=9), BIG], ["s1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(), [replace(SMALL, auto=False), BIG], ["b1"], "auto: the only one"),
        ("auto", Needs(structured=True), [LOOSE, SMALL], ["s1"], "auto: the only one that can"),
        ("auto", Needs(), [LOOSE, SMALL], ["l1", "s1"], "auto: cheapest of 2"),
        ("auto", Needs(languages=("ja",)), [CODER, BIG], ["b1"], "auto: the only one that can"),
        ("auto", Needs(languages=("de",)), [CODER, BIG], ["c1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(languages=("de",)), [AUSTRIAN, BIG], ["c1", "b1"], "auto: cheapest of 2"),
        ("auto", Needs(domain="code"), [SMALL, CODER], ["c1", "s1"], "auto: for code"),
        ("auto", Needs(domain="law"), [CODER, BIG], ["b1", "c1"], "auto: cheapest of 2"),
        (
            "auto",
            Needs(domain="code"),
            [sick(CODER), SMALL],
            ["s1"],
            "auto: cheapest of 2; coder is not ready",
        ),
        ("auto", Needs(), [replace(VECTORS, chat=False), SMALL], ["s1"], "auto: the only one"),
        ("auto", Needs(), [EARS, SMALL], ["s1"], "auto: the only one that can"),
        ("coder", Needs(domain="law", languages=("ja",)), [*ALL, CODER], ["c1"], "asked by name"),
        ("small", Needs(), [replace(SMALL, first_byte=2), SMALL_2], ["s2", "s1"], "asked"),
        (
            "small",
            Needs(),
            [replace(SMALL, free=False), replace(SMALL_2, load=3)],
            ["s2", "s1"],
            "asked",
        ),
    ],
)
def test_route_is_chosen_by_name_need_cost_and_load(
    model: str, needs: Needs, instances: list[Server], order: list[str], reason: str
) -> None:
    """A name is obeyed; `auto` takes the cheapest expert that can, and never the agent."""
    route = choose(model, needs, instances)

    assert [instance.label for instance in route.order] == order
    assert route.reason.startswith(reason)


@pytest.mark.parametrize(
    ("model", "needs", "instances", "status", "words"),
    [
        ("smallx", Needs(), ALL, 404, "Did you mean 'small'?"),
        ("gpt-5", Needs(), ALL, 404, "Known models: agent, auto, big, eyes, small"),
        ("x", Needs(), [], 404, "none yet"),
        ("big", Needs(), [sick(BIG)], 503, "b1: loading"),
        ("auto", Needs(), [sick(SMALL), sick(BIG), AGENT], 503, "s1: loading; b1: loading"),
        ("auto", Needs(), [AGENT], 503, "There is none"),
        ("auto", Needs(tools=True), [SMALL], 400, "small takes no tools"),
        ("auto", Needs(vision=True), [SMALL, BIG], 400, "big takes no pictures"),
        ("auto", Needs(embeddings=True), [BIG], 400, "big takes no embeddings"),
        ("auto", Needs(rerank=True), [BIG, VECTORS], 400, "big takes no rerank"),
        ("auto", Needs(structured=True), [LOOSE], 400, "loose takes no JSON schema"),
        ("auto", Needs(languages=("ja",)), [CODER], 400, "coder takes no language 'ja'"),
        ("auto", Needs(languages=("zh", "ja")), [CODER], 400, "no language 'zh' or 'ja'"),
        ("auto", Needs(), [replace(VECTORS, chat=False)], 400, "vectors takes no chat"),
        ("moonshine", Needs(), [EARS, SMALL], 404, "moonshine"),
        ("x", Needs(), [sick(SPARED), sick(SMALL)], 503, "x1: loading"),
    ],
)
def test_refusal_says_what_is_missing(
    model: str, needs: Needs, instances: list[Server], status: int, words: str
) -> None:
    """A wrong name, nobody ready and nobody able are three different things to mend."""
    with pytest.raises(Refused) as caught:
        choose(model, needs, instances)

    assert caught.value.status == status
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("needs", "others", "spare"),
    [
        (Needs(), [EYES, SMALL, SMALL_2], ["e1", "s1", "s2"]),
        (Needs(tools=True), [EYES, SMALL], ["e1"]),
        (Needs(tokens=9000), [EYES, SMALL], []),
        (Needs(), [sick(EYES), SMALL], ["s1"]),
    ],
)
def test_declared_fallbacks_stand_by_if_they_can_do_it(
    needs: Needs, others: list[Server], spare: list[str]
) -> None:
    """One that cannot would answer something else; the order is that of the declaration."""
    several = [SPARED, replace(SPARED, label="x2")]
    route = choose("x", needs, [*several, *others])

    assert [one.label for one in route.order] == ["x1", "x2"]
    assert [one.label for one in route.spare] == spare
    if spare:
        alone = choose("x", needs, [*map(sick, several), *others])
        assert alone.order == []
        assert alone.reason == "asked by name; x is not ready"


@pytest.mark.parametrize(
    ("kind", "model", "words"),
    [
        ("stt", "moonshine", "asked by name"),
        ("stt", "whisper-1", "speech: the house's stt"),
        ("stt", "auto", "speech: the house's stt"),
        ("stt", "tts-1", None),
        ("stt", "small", None),
        ("tts", "tts-1", None),
    ],
)
def test_speech_is_whatever_engine_the_house_has(kind: str, model: str, words: str | None) -> None:
    """Clients come with OpenAI's names; a name of something else is an error."""
    if words is not None:
        route = choose_speech(kind, model, [*ALL, EARS])
        assert [one.label for one in route.order] == ["t1"]
        assert route.reason == words
        return
    with pytest.raises(Refused) as caught:
        choose_speech(kind, model, [*ALL, EARS])
    assert caught.value.status == 404


def test_prompts_that_begin_alike_go_to_the_instance_whose_cache_holds_the_beginning() -> None:
    """A cached beginning is not computed again, which is most of the wait for the first word."""
    several = [replace(SMALL, label=f"s{n}") for n in range(8)]
    homes = {
        key: choose("small", Needs(affinity=key), several).order[0].label
        for key in (b"%d" % n for n in range(200))
    }
    one_less = [server for server in several if server.label != "s3"]
    moved = [
        key
        for key, home in homes.items()
        if choose("small", Needs(affinity=key), one_less).order[0].label != home
    ]
    busy = [replace(server, free=server.label != homes[b"7"]) for server in several]
    others = [replace(server, load=float(server.label == homes[b"7"])) for server in several]
    half = [replace(server, load=server.load / 2) for server in others]

    assert set(homes.values()) == {server.label for server in several}
    assert {homes[key] for key in moved} == {"s3"}
    assert choose("small", Needs(affinity=b"7"), several).reason.endswith("of the prompt")
    for full in (busy, others):
        assert choose("small", Needs(affinity=b"7"), full).order[0].label != homes[b"7"]
        assert choose("small", Needs(affinity=b"7"), full).reason == "asked by name"
    assert choose("small", Needs(affinity=b"7"), half).order[0].label == homes[b"7"]
    assert choose("auto", Needs(affinity=b"7"), several).order[0].label == homes[b"7"]


def test_time_to_the_first_byte_is_smoothed_and_decides_between_equals() -> None:
    """One slow answer is no slow machine; several are."""
    slow, quick = (
        Instance(InstanceSettings.model_validate({"url": f"http://{name}", "expert": "small"}))
        for name in ("slow", "quick")
    )
    for instance in (slow, quick):
        instance.healthy = True
    seen = []
    for _ in range(3):
        slow.answered(1.0)
        seen.append(round(slow.first_byte, 3))
    quick.answered(0.1)

    assert seen == [0.2, 0.36, 0.488]
    assert choose("small", Needs(), [slow, quick]).order[0] is quick
    for _ in range(30):
        slow.answered(0.001)
    assert choose("small", Needs(), [slow, quick]).order[0] is slow


def test_load_is_counted_by_slot() -> None:
    """Three requests are less for eight slots than two are for four."""
    small, large = (
        Instance(InstanceSettings.model_validate({"url": f"http://{n}", "expert": "x", "slots": n}))
        for n in (4, 8)
    )
    small.in_flight, large.in_flight, small.healthy, large.healthy = 2, 3, True, True

    assert choose("x", Needs(), [small, large]).order[0] is large
    large.busy_elsewhere = 2
    assert choose("x", Needs(), [small, large]).order[0] is small


def turns(*texts: str, **fields: Any) -> bytes:
    """A request whose first message is the system's; user and assistant take turns after it."""
    roles = ["system", *["user", "assistant"] * len(texts)]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return json.dumps({"model": "auto", "messages": messages, **fields}).encode()


LONG = "You are helpful. " * 100


def test_turns_of_one_conversation_have_one_affinity() -> None:
    """A hash of all messages would change with each turn."""
    first = needs_of(turns(LONG, "Hello"), "chat").affinity
    later = needs_of(turns(LONG, "Hello", "Hi.", "And now?"), "chat").affinity
    others = [
        needs_of(turns(LONG, "Hallo"), "chat").affinity,
        needs_of(turns(LONG + "!", "Hello"), "chat").affinity,
        needs_of(turns(LONG, "Hello", tools=[TOOL]), "chat").affinity,
    ]
    named = needs_of(turns("", "Hello", prompt_cache_key="k"), "chat", Hints(b"s")).affinity

    assert first == later != b""
    assert first not in others
    assert named == b"k"
    assert needs_of(turns(LONG, "Hello"), "chat", Hints(b"s")).affinity == b"s"
    assert needs_of(turns("short", "Hello"), "chat").affinity == b""


@pytest.mark.parametrize(
    ("needs", "instances", "asked"),
    [
        (Needs(), [SMALL, CODER], True),
        (Needs(), [SMALL, BIG], False),
        (Needs(), [CODER, replace(CODER, label="c2")], False),
        (Needs(), [SMALL, sick(CODER)], False),
        (Needs(), [SMALL, replace(CODER, auto=False)], False),
        (Needs(tools=True), [SMALL, CODER], False),
        (Needs(tokens=2000), [SMALL, CODER], False),
        (Needs(), [SMALL, replace(AGENT, domains=("code",))], False),
    ],
)
def test_domain_is_asked_for_where_it_decides(
    needs: Needs, instances: list[Server], *, asked: bool
) -> None:
    """Rules come first: where they leave no choice, half a second for an opinion is lost."""
    assert undecided(needs, instances) is asked


def test_known_models_begin_with_auto_when_there_are_experts() -> None:
    """An agent alone cannot be chosen from, nor can experts that are for their callers alone."""
    own = replace(BIG, auto=False)
    assert known_models([own]) == ["big"]
    assert known_models(ALL) == ["auto", "small", "tiny", "big", "eyes", "agent", "workflow/x"]
    assert known_models([AGENT]) == ["agent", "workflow/x"]


def chat(content: Any, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": "auto", "messages": messages, **fields}).encode()


TOOL = {"type": "function", "function": {"name": "f"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}


CYRILLIC = "ru uk be bg sr mk kk ky mn tg"


def headed(**fields: Any) -> bytes:
    return chat("Hi", **fields)


@pytest.mark.parametrize(
    ("body", "hints", "languages", "domain"),
    [
        (headed(), Hints(), "", ""),
        (headed(), Hints(language="de", domain="law"), "de", "law"),
        (headed(metadata={"language": "fr", "domain": "code"}), Hints(), "fr", "code"),
        (headed(metadata={"language": "fr"}), Hints(language="de"), "de", ""),
        (headed(metadata={"language": 7}), Hints(), "", ""),
        (headed(), Hints(language="de-AT"), "de", ""),
        (headed(metadata={"language": "pt_BR"}), Hints(), "pt", ""),
        (headed(), Hints(language=" EN "), "en", ""),
        (chat("こんにちは、元気ですか"), Hints(), "ja", ""),
        (chat("東京都知事選挙"), Hints(), "zh ja", ""),
        (chat("Привет, как дела?"), Hints(), CYRILLIC, ""),
        (chat("Яка сьогодні погода?"), Hints(), CYRILLIC, ""),
        (chat("Καλημέρα, παρακαλώ;"), Hints(), "el", ""),
        (chat("x² + Ω, and π?"), Hints(), "", ""),
        (chat("Δx?"), Hints(), "", ""),
        (chat("Wie heißt das Gebäude?"), Hints(), "", ""),
        (chat("Translate 猫 into many other languages, please."), Hints(), "", ""),
    ],
)
def test_language_and_domain_are_what_the_caller_says_or_the_script_tells(
    body: bytes, hints: Hints, languages: str, domain: str
) -> None:
    """A header counts before the body, and both before a guess, which leaves out no expert that
    speaks a language of that script; Latin script is no language."""
    needs = needs_of(body, "chat", hints)

    assert (needs.languages, needs.domain) == (tuple(languages.split()), domain)


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        (chat("", response_format={"type": "json_object"}), Needs(structured=True)),
        (chat("", response_format={"type": "json_schema"}), Needs(structured=True)),
        (chat("", response_format={"type": None}), Needs()),
        (chat([{**PICTURE, "text": None}, {"type": None}]), Needs(vision=True)),
        (chat("", response_format={"type": "text"}), Needs()),
        (chat("x" * 300), Needs(tokens=100)),
        (chat([{"type": "text", "text": "x" * 300}, PICTURE]), Needs(tokens=100, vision=True)),
        (chat(None, tools=[]), Needs()),
        (chat(None, tools=None), Needs(tokens=1)),
        (chat("", tools=[TOOL], tool_choice="none"), Needs(tokens=16)),
        (chat("", tools=[TOOL]), Needs(tokens=16, tools=True)),
        (b'{"messages": 7, "model": "auto"}', Needs(tokens=10)),
    ],
)
def test_needs_are_read_off_the_body(body: bytes, needs: Needs) -> None:
    """Pictures are no text: their bytes must not count as tokens."""
    assert replace(needs_of(body, "chat"), affinity=b"") == needs


def test_calls_that_were_made_take_room() -> None:
    """An assistant that edits files says most of its words in the arguments of its calls."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x" * 300}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    body = json.dumps({"model": "auto", "messages": messages}).encode()

    assert 100 < needs_of(body, "chat").tokens < 150


def test_text_that_shall_go_on_takes_room_and_vectors_take_none() -> None:
    """The older endpoint has one prompt; and for vectors each text counts for itself."""
    body = b'{"model": "auto", "prompt": "%s", "input": "x"}' % (b"x" * 298)

    assert needs_of(body, "text") == Needs(tokens=100)
    assert needs_of(body, "embeddings") == Needs(embeddings=True)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"", None, "not valid JSON"),
        (b"{", None, "not valid JSON"),
        (b'{"model": "x"} y', None, "not valid JSON"),
        (b"[]", None, "Expected `object`"),
        (b"{}", "model", "`model`"),
        (b'{"model": 7}', "model", "Expected `str`"),
        (b'{"model": "x", "stream": "yes"}', "stream", "bool"),
        (b'{"model": "x", "stream_options": []}', "stream_options", "object"),
        (b'{"model": "x", "n": "3"}', "n", "got `str`"),
        (b'{"model": "x", "n": 0}', "n", "`int` >= 1"),
        (b'{"model": "x", "max_tokens": -5}', "max_tokens", "`int` >= 0"),
        (b'{"model": "x", "temperature": -0.1}', "temperature", "`float` >= 0"),
    ],
)
def test_body_that_does_not_fit_is_refused_with_its_place(
    body: bytes, param: str | None, words: str
) -> None:
    """400 names the field, as clients show it; nothing of the request is repeated."""
    with pytest.raises(Refused, match=words) as caught:
        look_at(body)

    assert caught.value.status == 400
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "several"),
    [
        ({}, 0),
        ({"n": 1, "prompt": "[]"}, 0),
        ({"n": 3}, 3),
        ({"prompt": [1, 2]}, 0),
        ({"prompt": ["a", "b"]}, 1),
        ({"prompt": [[1], [2]]}, 1),
        ({"prompt": ["a", "b"], "n": 2}, 2),
    ],
)
def test_request_for_several_answers_is_known(fields: dict[str, Any], several: int) -> None:
    """What they cost is told in another way than what one costs."""
    assert look_at(json.dumps({"model": "small", **fields}).encode()).several == several


def test_change_keeps_every_other_byte() -> None:
    """Numbers, escapes and unknown fields reach the server as the caller wrote them."""
    body = b'{"model": "auto", "n": 1.50, "big": 123456789012345678901234567890, "t": "\\u00e9 "}'

    after = changed(body, model="small", stream=True)

    assert after == (
        b'{"model":"small","n":1.50,"big":123456789012345678901234567890,"t":"\\u00e9 ",'
        b'"stream":true}'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("null", {"include_usage": True}),
        ('{"include_usage": false, "x": 1}', {"include_usage": True, "x": 1}),
    ],
)
def test_stream_options_are_added_to(before: str, after: dict[str, Any]) -> None:
    """Other options of the caller stay."""
    body = b'{"model": "m", "stream_options": %s}' % before.encode()

    found = json.loads(changed(body, stream_options={"include_usage": True}))

    assert found["stream_options"] == after
