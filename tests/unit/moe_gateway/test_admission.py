"""Slots, turns, circuits and the budget of failovers."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hearth.service.http_errors import Refused
from moe_gateway.routing.admission import Admission, Circuit, RetryBudget
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import InstanceSettings


@dataclass(eq=False)
class Engine:
    """An instance as admission sees it."""

    slots: int = 1
    in_flight: int = 0

    @property
    def free(self) -> bool:
        return self.in_flight < self.slots


class House:
    """One engine, and callers who note the order in which they are let in."""

    def __init__(self, engine: Engine, per_key: int = 8, total: int = 16) -> None:
        self.engine = engine
        self.admission: Admission[Engine] = Admission(per_key, total)
        self.order: list[str] = []

    def pick(self) -> Engine | None:
        return self.engine if self.engine.free else None

    def call(self, key: str, name: str) -> "asyncio.Task[None]":
        async def enter() -> None:
            await self.admission.enter(key, "small", self.pick)
            self.order.append(name)

        return asyncio.create_task(enter())

    async def leave_all(self, times: int) -> None:
        for _ in range(times):
            self.admission.leave(self.engine)
            await asyncio.sleep(0)
            await asyncio.sleep(0)


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_keys_take_turns_whatever_one_of_them_has_sent_before() -> None:
    """A program with a hundred requests must not hold up the person who asks one thing."""
    house = House(Engine(slots=1))
    tasks = [house.call("a", f"a{n}") for n in range(4)]
    await settled()
    tasks += [house.call("b", "b0"), house.call("c", "c0"), house.call("b", "b1")]
    await settled()
    await house.leave_all(7)
    await asyncio.gather(*tasks)

    assert house.order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]
    assert (house.engine.in_flight, len(house.admission)) == (0, 0)


async def test_place_in_the_queue_is_counted_in_turns() -> None:
    """A person behind a program with three requests waits for one of them, not for three."""
    house, places = House(Engine(slots=0)), list[Callable[[], int]]()
    tasks = [
        asyncio.create_task(house.admission.enter(key, "small", house.pick, places.append))
        for key in "aaab"
    ]
    await settled()

    assert [place() for place in places] == [2, 3, 4, 2]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_request_that_waits_for_a_busy_expert_lets_others_pass() -> None:
    """Head-of-line blocking would make the slowest expert the speed of all."""
    busy, idle = Engine(slots=1, in_flight=1), Engine(slots=1, in_flight=1)
    admission: Admission[Engine] = Admission(8, 16)
    one = asyncio.create_task(admission.enter("a", "big", lambda: busy if busy.free else None))
    two = asyncio.create_task(admission.enter("a", "small", lambda: idle if idle.free else None))
    await settled()
    assert admission.waiting_for() == {"big": 1, "small": 1}

    admission.leave(idle)

    assert await two is idle
    assert not one.done()
    admission.leave(busy)
    assert await one is busy


async def test_full_queue_refuses_with_the_time_to_wait() -> None:
    """429 and Retry-After: official clients come back by themselves."""
    house = House(Engine(slots=0), per_key=2, total=3)
    tasks = [house.call(key, key) for key in ("a", "a", "b")]
    await settled()

    for key in ("a", "b"):
        with pytest.raises(Refused) as caught:
            await asyncio.wait_for(house.admission.enter(key, "small", house.pick), 60)
        assert caught.value.status == 429
        assert caught.value.headers == {"retry-after": "1"}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(house.admission) == 0


async def test_time_to_wait_is_what_others_waited_and_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is told a second comes back too early again and again; who is told an hour sleeps it."""
    house, clock, ahead = House(Engine(slots=1), per_key=1), time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + ahead)
    house.call("a", "first")
    told = []
    for seconds in (0.0, 100.0, 10_000.0):
        ahead = seconds
        house.call("a", "next")
        await settled()
        await house.leave_all(1)
        waiting = house.call("a", "waits")
        await settled()
        with pytest.raises(Refused) as caught:
            await house.admission.enter("a", "small", house.pick)
        told.append(dict(caught.value.headers or {})["retry-after"])
        waiting.cancel()
        await settled()

    assert told == ["1", "21", "60"]


async def test_caller_who_leaves_the_queue_takes_no_slot_along() -> None:
    """Also in the moment in which it is his turn: a lost slot would be lost for ever."""
    house = House(Engine(slots=1))
    first, second, third = (house.call("a", name) for name in ("1", "2", "3"))
    await settled()
    house.admission.leave(house.engine)
    second.cancel()
    await settled()

    assert house.order == ["1", "3"]
    assert second.cancelled()
    assert third.done()
    assert house.engine.in_flight == 1
    assert first.done()


async def test_queue_ends_with_the_reason_when_nobody_is_ready_any_more() -> None:
    """Waiting for an expert that has gone would be waiting for ever."""
    gone = False

    def pick() -> Engine | None:
        if gone:
            raise Refused(503, "model_unavailable", "gone")
        return None

    admission: Admission[Engine] = Admission(8, 16)
    task = asyncio.create_task(admission.enter("a", "small", pick))
    await settled()
    gone = True
    admission.changed()

    with pytest.raises(Refused, match="gone"):
        await task
    assert len(admission) == 0


def test_circuit_opens_after_failures_in_a_row_and_closes_with_one_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instance that fails each request would otherwise get each request first."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    circuit = Circuit(failures=2, seconds=2.0)

    assert [circuit.failed(), circuit.state] == [False, "closed"]
    circuit.succeeded()
    assert [circuit.failed(), circuit.failed(), circuit.state] == [False, True, "open"]
    now += 2.1
    assert circuit.state == "half-open"
    assert [circuit.failed(), circuit.state] == [True, "open"]
    now += 2.1
    assert circuit.state == "open", "twice as long after a try that failed"
    now += 2.1
    assert circuit.state == "half-open"
    circuit.succeeded()
    assert circuit.state == "closed"
    assert not circuit.failed()
    for _ in range(2000):
        circuit.failed()
        now = max(now, circuit.open_until)
    circuit.failed()
    assert circuit.open_until - now == 30, "what is mended in the night is used in the morning"


def test_what_was_under_way_when_the_circuit_opened_is_no_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that falls over fails all of its requests, at once or each when its time is over,
    and may be well a moment later."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    settings = InstanceSettings.model_validate({"url": "http://a", "expert": "small", "slots": 16})
    instance = Instance(settings, circuit=Circuit(failures=3, seconds=2.0))
    begun = instance.breaker_generation

    for _ in range(16):
        instance.failed("It was killed.", begun)
        now += 0.5

    assert instance.circuit.state == "half-open"
    instance.failed("It is no better.", instance.breaker_generation)
    assert instance.circuit.open_until == now + 4.0


async def test_request_that_cannot_be_placed_fails_alone() -> None:
    """Not the one whose end lets it in, and not the watch that finds a new instance."""
    house = House(Engine(slots=1))

    def broken() -> Engine | None:
        if house.engine.free:
            raise ZeroDivisionError
        return None

    first = house.call("a", "first")
    await settled()
    odd = asyncio.create_task(house.admission.enter("a", "small", broken))
    next_one = house.call("b", "next")
    await settled()
    await house.leave_all(1)

    with pytest.raises(ZeroDivisionError):
        await odd
    await asyncio.gather(first, next_one)
    assert house.order == ["first", "next"]


def test_failovers_are_a_tenth_of_the_requests_at_most() -> None:
    """When a whole house fails, asking twice is what keeps it down."""
    budget = RetryBudget()
    burst = sum(budget.spend() for _ in range(50))
    allowed = 0
    for _ in range(1000):
        budget.request()
        allowed += budget.spend()

    assert burst == 10
    assert 95 <= allowed <= 100


def test_all_that_a_dying_instance_worked_on_may_go_on() -> None:
    """However much that is; but then failovers have to be earned again."""
    budget = RetryBudget()
    burst = sum(budget.spend(64) for _ in range(100))
    for _ in range(100):
        budget.request()

    assert burst == 64
    assert not budget.spend()
