"""Programs in containers of a Docker Engine, for what an image holds and this machine has not.

Spoken with by its API, over its socket. The container works on a copy of the folder, so that one
that goes on while this service restarts can be found again, and nothing of the run waits for it.
"""

import asyncio
import json
import os
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2

from pipecatapp.sandbox import Limits, Outcome, Stopped, bundle
from pipecatapp.sandbox.bubblewrap import ENVIRONMENT, HOME, WORK
from pipecatapp.sandbox.errand import Errand, pack_outcome
from pipecatapp.sandbox.output import Stream
from pipecatapp.sandbox.tree import Entry, TooLarge
from pipecatapp.sandbox.watch import Folder
from pipecatapp.tools.code.elsewhere.errands import Errands, Offered
from pipecatapp.workflow import ToolFailed

USER: Final = 1000
"""Whom a program is, where this service is root."""
LOOK: Final = 0.25
MOST: Final = 1 << 40
BEFORE: Final = "before"
STDIN: Final = "/code/stdin"
WITH_STDIN: Final = ("/bin/sh", "-c", f'exec "$@" <{STDIN}', "sh")
FRAME: Final = struct.Struct(">BxxxL")
"""The header of each chunk of output: the stream (1: stdout, 2: stderr) and the size."""
KILLED, KILLED_FOR_CPU = 128 + 9, 128 + 24


@dataclass(frozen=True)
class DockerPlace:
    """`http` asks the engine's API; the engine must see this service's files."""

    http: httpx2.AsyncClient
    errands: Errands

    async def run(
        self, call: str, errand: Errand, folder: Path, *, leaving: Callable[[], bool]
    ) -> Outcome:
        """As `Elsewhere.run`."""
        if not errand.image:
            raise ToolFailed("`where: docker` needs the `image` to run the program in.")
        offered = await self.errands.offer(call, errand, folder)
        return await offered.carried(self._carry_out, self._end, folder, leaving=leaving)

    async def _carry_out(self, offered: Offered) -> None:
        """Start the container, or find it as it was left; keep what came of it; remove it."""
        name, work = _name(offered), offered.place / "work"
        if offered.noted(BEFORE) is None:
            await self._remove(name)
            try:
                before = await asyncio.to_thread(_lay_out, offered, work)
            except (TooLarge, OSError) as error:
                raise ToolFailed(
                    f"The workspace cannot be sent to the program: {error}."
                ) from error
            await self.ask("POST", "/containers/create", {"name": name}, _container(offered, work))
            await self.ask("POST", f"/containers/{name}/start")
            offered.note(BEFORE, before)
        folder = Folder(work, offered.errand.limits, _entries(str(offered.noted(BEFORE))))
        ended = await _Running(self, name, offered.errand.limits, folder).end()
        await asyncio.to_thread(_keep, offered, ended, work)
        await self._remove(name)

    async def _end(self, offered: Offered) -> None:
        await self._remove(_name(offered))
        await asyncio.to_thread(self.errands.drop, offered)

    async def _remove(self, name: str) -> None:
        await self.ask("DELETE", f"/containers/{name}", {"force": "true"}, missing=True)

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        missing: bool = False,
    ) -> Any:
        """Raises `ToolFailed`; without a container the answer is None where that is `missing`."""
        try:
            answer = await self.http.request(method, path, params=query, json=body)
        except (httpx2.HTTPError, OSError) as error:
            said = str(error) or type(error).__name__
            raise ToolFailed(f"The Docker Engine does not answer: {said}.") from error
        if answer.status_code == httpx2.codes.NOT_FOUND and missing:
            return None
        if answer.is_error:
            raise ToolFailed(f"The Docker Engine refused: {_message(answer)}")
        return answer.json() if answer.content else None


@dataclass
class _Running:
    """A container that has been started, and its limits."""

    docker: DockerPlace
    name: str
    limits: Limits
    folder: Folder

    def __post_init__(self) -> None:
        self._streams = {1: Stream(self.limits.kept), 2: Stream(self.limits.kept)}

    async def end(self) -> Outcome:
        """How it ended, by itself or by a limit."""
        begun = _moment((await self._state())["StartedAt"])
        listening = asyncio.create_task(self._listen())
        stopped: Stopped | None = None
        try:
            while not listening.done() and stopped is None:
                await asyncio.wait({listening}, timeout=LOOK)
                stopped = await asyncio.to_thread(self._exceeded, begun)
            if stopped is not None and not listening.done():
                await self.docker.ask("POST", f"/containers/{self.name}/kill", missing=True)
            await listening
        finally:
            listening.cancel()
        return self._outcome(await self._state(), stopped)

    def _exceeded(self, begun: float) -> Stopped | None:
        if sum(stream.size for stream in self._streams.values()) > self.limits.output:
            return "output"
        if self.folder.overfull():
            return "disk"
        return "time" if time.time() - begun > self.limits.seconds else None

    async def _listen(self) -> None:
        """Everything that it prints, from its beginning, until it ends."""
        path, query = f"/containers/{self.name}/logs", {"follow": "1", "stdout": "1", "stderr": "1"}
        held = b""
        try:
            async with self.docker.http.stream("GET", path, params=query, timeout=None) as answer:
                async for data in answer.aiter_bytes():
                    held = self._heard(held + data)
        except (httpx2.HTTPError, OSError) as error:
            raise ToolFailed(f"The Docker Engine went away: {error}.") from error

    def _heard(self, data: bytes) -> bytes:
        """Keep whole pieces; gives what is left of a piece that has not come in full."""
        while len(data) >= FRAME.size:
            kind, size = FRAME.unpack_from(data)
            if len(data) < FRAME.size + size:
                break
            if kind in self._streams:
                self._streams[kind].add(data[FRAME.size : FRAME.size + size])
            data = data[FRAME.size + size :]
        return data

    async def _state(self) -> Mapping[str, Any]:
        """Of the container; it may take a moment until it has ended."""
        state: dict[str, Any] = (await self.docker.ask("GET", f"/containers/{self.name}/json"))[
            "State"
        ]
        return state

    def _outcome(self, state: Mapping[str, Any], stopped: Stopped | None) -> Outcome:
        begun, ended, code = _moment(state["StartedAt"]), _moment(state["FinishedAt"]), 0
        code = int(state["ExitCode"])
        if stopped is None and state["OOMKilled"]:
            stopped = "memory"
        if stopped is None and self.folder.overfull_now():
            stopped = "disk"
        worn = code == KILLED and ended - begun >= self.limits.cpu
        if stopped is None and (code == KILLED_FOR_CPU or worn):
            stopped = "cpu"
        return Outcome(
            exit_code=None if stopped else code,
            stopped=stopped,
            stdout=self._streams[1].text(),
            stderr=self._streams[2].text(),
            seconds=round(max(0.0, ended - begun), 3),
            changes={} if stopped == "disk" else self.folder.changes(),
        )


def _name(offered: Offered) -> str:
    return f"hearth-{offered.id}"


def _container(offered: Offered, work: Path) -> dict[str, Any]:
    """As little as a program in the sandbox has: one folder, no network, no way to more."""
    errand, limits, place = offered.errand, offered.errand.limits, offered.place
    words = errand.words("python3")
    shown = [(work, WORK, False)]
    if errand.code:
        shown.append((place / "source", errand.source, True))
    if errand.stdin:
        shown.append((place / "stdin", STDIN, True))
        words = [*WITH_STDIN, *words]
    user = USER if os.geteuid() == 0 else os.geteuid()
    scratch = f"rw,nosuid,nodev,size={limits.scratch},mode=700,uid={user},gid={user}"
    variables = {**ENVIRONMENT, **errand.variables(), **errand.environment}
    if "PATH" not in errand.environment:
        del variables["PATH"]
    hard = {"cpu": limits.cpu, "fsize": limits.file, "nofile": limits.opened, "core": 0}
    return {
        "Image": errand.image,
        "Entrypoint": words[:1],
        "Cmd": words[1:],
        "User": f"{user}:{user}",
        "WorkingDir": WORK,
        "Hostname": "sandbox",
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": {"hearth": offered.id},
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": limits.memory,
            "MemorySwap": limits.memory,
            "PidsLimit": limits.processes,
            "ShmSize": limits.scratch,
            "Tmpfs": {"/tmp": scratch, HOME: scratch},
            "Mounts": [
                {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": fixed}
                for source, target, fixed in shown
            ],
            "Ulimits": [
                {"Name": name, "Soft": value, "Hard": value + (name == "cpu")}
                for name, value in hard.items()
            ],
            "LogConfig": {
                "Type": "json-file",
                "Config": {"max-size": str(limits.output * 8), "max-file": "1"},
            },
        },
    }


def _lay_out(offered: Offered, work: Path) -> str:
    """The files that the container sees; gives what lies in the folder, to be compared later."""
    errand = offered.errand
    subprocess.run(["rm", "-rf", "--", str(work)], check=True)
    work.mkdir()
    with offered.given.open("rb") as given:
        bundle.unpack(given, work, size=MOST, count=MOST)
    for name, text in (("source", errand.code), ("stdin", errand.stdin)):
        file = offered.place / name
        file.write_text(text, encoding="utf-8", errors="replace")
        file.chmod(0o644)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "-h", f"{USER}:{USER}", str(work)], check=True)
    found = Folder(work, errand.limits).before.values()
    return json.dumps([[one.path, one.mode, one.size, one.state] for one in found])


def _entries(said: str) -> dict[str, Entry]:
    return {
        path: Entry(path, mode, size, tuple(state)) for path, mode, size, state in json.loads(said)
    }


def _keep(offered: Offered, ended: Outcome, work: Path) -> None:
    part = offered.place / ".result"
    with part.open("wb") as target:
        pack_outcome(target, ended, work)
    offered.came_back(part)
    subprocess.run(["rm", "-rf", "--", str(work)], check=True)


def _moment(said: str) -> float:
    """RFC 3339 with nanoseconds, as the engine writes it."""
    return datetime.fromisoformat(said[:19]).replace(tzinfo=UTC).timestamp() + float(
        f"0{said[19:].rstrip('Z')}" if said[19:20] == "." else 0
    )


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()
