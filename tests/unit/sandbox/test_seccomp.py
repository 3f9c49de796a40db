"""The system call filter, run by an interpreter of the classic BPF; the kernel runs it in
tests/integration/sandbox, for this machine's processor only.
"""

import errno
import re
import struct
from pathlib import Path

import pytest

from pipecatapp.sandbox import seccomp
from pipecatapp.sandbox.seccomp import ALLOW, AUDIT, ERRNO, KILL_PROCESS

MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def decide(machine: str, number: int, *arguments: int, counted: bool = True,
           architecture: int | None = None) -> int:  # fmt: skip
    """What the filter answers to a call."""
    program = seccomp.program(machine, counted=counted, sockets_counted=counted)
    steps = list(struct.iter_unpack("=HBBI", program))
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", number, architecture or AUDIT[machine], 0, *padded)
    value, at = 0, 0
    while True:
        code, when, otherwise, k = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return int(k)
        if code == seccomp.LOAD:
            (value,) = struct.unpack_from("=I", data, k)
        elif code == seccomp.JUMP:
            at += k
        else:
            holds = {
                seccomp.JUMP_IF: value == k,
                seccomp.JUMP_AT_LEAST: value >= k,
                seccomp.JUMP_ANY_BIT: bool(value & k),
            }[code]
            at += when if holds else otherwise


@MACHINES
def test_calls_are_refused_as_the_list_says(machine: str) -> None:
    """A jump that is off by one would let in what the list keeps out, and nobody would see it."""
    calls = seccomp.numbers(machine)
    always = set(calls) - set(seccomp.CONDITIONAL) - set(seccomp.ABSENT)

    assert {decide(machine, calls[name]) for name in always} == {ERRNO | errno.EPERM}
    assert {decide(machine, calls[name]) for name in seccomp.ABSENT} == {ERRNO | errno.ENOSYS}
    ordinary = set(range(500)) - set(calls.values())
    assert {decide(machine, number, 7, 7, 7, 7) for number in ordinary} == {ALLOW}


@MACHINES
@pytest.mark.parametrize(
    ("name", "refused", "allowed"),
    [
        ("openat", (0, 0, 0o101, 0o4755), (0, 0, 0o101, 0o755)),
        ("openat", (0, 0, 0o20000002, 0o2644), (0, 0, 0, 0o4755)),
        ("fchmod", (3, 0o2755), (3, 0o1777)),
        ("fchmodat", (0, 0, 0o4755), (0, 0, 0o777)),
        ("fchmodat2", (0, 0, 0o6755), (0, 0, 0o777)),
        ("mknodat", (0, 0, 0o104755), (0, 0, 0o100644)),
        ("clone", (0x10000000 | 17,), (17,)),
        ("clone", (0x20000000,), (0x3D0F00,)),
        ("ioctl", (0, 0x5412), (0, 0x5401)),
        ("ioctl", (0, 0x541C), (0, 0x5413)),
        ("socket", (40, 1), (1, 1)),
        ("socket", (17, 3), (10, 1)),
        ("socketpair", (16 + 1, 1), (16, 3)),
    ],
)
def test_arguments_decide_where_a_call_is_also_needed(
    machine: str, name: str, refused: tuple[int, ...], allowed: tuple[int, ...]
) -> None:
    """Programs need files, processes and sockets; only the dangerous forms are kept out."""
    number = seccomp.numbers(machine)[name]

    assert decide(machine, number, *refused) & 0xFFFF0000 == ERRNO
    assert decide(machine, number, *allowed) == ALLOW


@MACHINES
def test_memory_that_is_mapped_nowhere_is_allowed_only_where_it_is_counted(machine: str) -> None:
    """Without a cgroup it would be nobody's."""
    calls = seccomp.numbers(machine)
    shared, private = (0, 0, 3, 0x21), (0, 0, 3, 0x22)

    for name, arguments in (
        ("mmap", shared), ("shmget", ()), ("memfd_create", ()), ("semget", ()),
    ):  # fmt: skip
        assert decide(machine, calls[name], *arguments) == ALLOW
        refused = decide(machine, calls[name], *arguments, counted=False)
        assert refused & 0xFFFF0000 == ERRNO
    for counted in (True, False):  # Some kernels count the messages of no cgroup.
        assert decide(machine, calls["msgget"], counted=counted) == ERRNO | errno.ENOSYS
    assert decide(machine, calls["mmap"], *private, counted=False) == ALLOW
    assert decide(machine, calls["mmap"], 0, 0, 3, 0x01, counted=False) == ALLOW


@MACHINES
def test_sizes_of_socket_buffers_are_ignored_only_where_memory_is_not_counted(machine: str) -> None:
    """The watch reckons with the default size; a program that asks for another is no failure."""
    number = seccomp.numbers(machine)["setsockopt"]

    for option in (7, 8, 32, 33):
        assert decide(machine, number, 3, 1, option) == ALLOW
        assert decide(machine, number, 3, 1, option, counted=False) == ERRNO
    for level, option in ((1, 2), (6, 7), (0, 32)):
        assert decide(machine, number, 3, level, option, counted=False) == ALLOW


@MACHINES
def test_other_calling_conventions_are_no_way_around(machine: str) -> None:
    """On x86-64 every call can also be made with the numbers of 32 bits, and by x32."""
    assert decide(machine, 20, architecture=0x40000003) == KILL_PROCESS
    assert decide(machine, 0x40000000 + 101) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize(
    ("machine", "file"),
    [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")],
)
def test_numbers_are_those_of_the_kernel(machine: str, file: str) -> None:
    """A wrong number would refuse one call and let the dangerous one in."""
    header = Path("/usr/include", file)
    text = header.read_text(encoding="ascii") if header.exists() else ""
    said = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", text))
    known = seccomp.numbers(machine)

    assert said or not header.exists()
    assert {n: v for n, v in known.items() if n in said and int(said[n]) != v} == {}
    assert len(set(known.values())) == len(known)
