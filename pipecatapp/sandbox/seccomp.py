"""The system calls that a program in the sandbox may not make, as a seccomp filter.

The list starts from the defaults of container engines (Docker's and Flatpak's profiles) and adds
what the sandbox guarantees: no set-uid files, no sockets outside of the network namespace, and, if
no cgroup counts memory, no memory that is charged to no process.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
ERRNO: Final = 0x00050000
LOAD, JUMP, JUMP_IF, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
"""Instructions of the classic BPF: linux/bpf_common.h."""
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets into `struct seccomp_data` (linux/seccomp.h); the low half of an argument is first."""
X32: Final = 0x40000000
"""From this number on it is a second way to make every call; no other architecture has it."""

AUDIT: Final[Mapping[str, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""linux/audit.h: how the kernel names the calling convention."""

SET_ID: Final = 0o6000
CREATING: Final = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: `open` uses the mode only with one of them."""
NEW_NAMESPACES: Final = 0x7E020000
"""All CLONE_NEW… flags of clone(2)."""
SHARED, ANONYMOUS = 0x01, 0x20
INJECTING: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: write into the input of a terminal."""
BUFFER_SIZES: Final = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and their FORCE forms: asm-generic/socket.h."""
SOL_SOCKET: Final = 1
"""As a bit mask it distinguishes this level of options from those of IP (0) and TCP (6)."""
FAMILIES: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Others, vsock first of all, know no network namespace or
have a long list of faults.
"""

X86_64: Final[Mapping[str, int]] = {
    "open": 2, "mmap": 9, "ioctl": 16, "shmget": 29, "socket": 41, "socketpair": 53, "clone": 56,
    "setsockopt": 54, "semget": 64, "msgget": 68,
    "creat": 85, "chmod": 90, "fchmod": 91, "ptrace": 101, "syslog": 103, "mknod": 133,
    "uselib": 134, "ustat": 136, "sysfs": 139, "vhangup": 153, "modify_ldt": 154,
    "pivot_root": 155, "_sysctl": 156, "adjtimex": 159, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "iopl": 172, "ioperm": 173, "create_module": 174, "init_module": 175,
    "delete_module": 176, "query_module": 178, "quotactl": 179, "nfsservctl": 180,
    "lookup_dcookie": 212, "clock_settime": 227, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "openat": 257, "mknodat": 259,
    "fchmodat": 268, "unshare": 272, "move_pages": 279, "fallocate": 285,
    "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "memfd_create": 319,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
"""asm/unistd_64.h of Linux."""

AARCH64: Final[Mapping[str, int]] = {
    "lookup_dcookie": 18, "ioctl": 29, "mknodat": 33, "umount2": 39, "mount": 40,
    "pivot_root": 41, "nfsservctl": 42, "fallocate": 47, "chroot": 51, "fchmod": 52,
    "fchmodat": 53, "openat": 56, "vhangup": 58, "quotactl": 60, "acct": 89, "unshare": 97,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112,
    "syslog": 116, "ptrace": 117, "reboot": 142, "settimeofday": 170, "adjtimex": 171,
    "msgget": 186, "semget": 190,
    "shmget": 194, "socket": 198, "socketpair": 199, "setsockopt": 208, "add_key": 217,
    "request_key": 218,
    "keyctl": 219, "clone": 220, "mmap": 222, "swapon": 224, "swapoff": 225,
    "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241, "fanotify_init": 262,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
"""asm-generic/unistd.h of Linux."""

EVERYWHERE: Final[Mapping[str, int]] = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "open_tree_attr": 467,
}  # fmt: skip
"""Since Linux 5.1 a new call has the same number on every architecture."""

ABSENT: Final = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Their arguments are not visible to the filter. With the error "no such call", programs use the
older call.
"""
CONDITIONAL: Final = (
    "open", "creat", "openat", "chmod", "fchmod", "fchmodat", "fchmodat2", "mknod", "mknodat",
    "clone", "ioctl", "socket", "socketpair", "mmap", "shmget", "memfd_create", "memfd_secret",
    "fallocate", "semget", "msgget", "setsockopt",
)  # fmt: skip
MODES: Final[Mapping[str, int]] = {
    "creat": 1, "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2,
}  # fmt: skip
"""Which argument is the mode of a file."""


@dataclass(frozen=True)
class Rule:
    """Refuse a call with `error` where all conditions hold; without conditions, always.

    `any_bit` names arguments and masks of which a bit must be set; `one_of` an argument and its
    values; `none_of` the same the other way round.
    """

    call: str
    error: int
    any_bit: tuple[tuple[int, int], ...] = ()
    one_of: tuple[int, tuple[int, ...]] | None = None
    none_of: tuple[int, tuple[int, ...]] | None = None


def known() -> bool:
    """Whether there is a filter for this machine's processor."""
    return platform.machine() in AUDIT


def numbers(machine: str) -> Mapping[str, int]:
    """The calls of that architecture that the filter speaks of, by name."""
    return {**(X86_64 if machine == "x86_64" else AARCH64), **EVERYWHERE}


def rules(*, counted: bool, sockets_counted: bool) -> Iterator[Rule]:
    """Yield the rules for refused system calls.

    `counted`: a cgroup counts the memory of all processes together; `sockets_counted`: including
    the buffers of sockets.
    """
    for call in dict.fromkeys((*X86_64, *AARCH64, *EVERYWHERE)):
        if call in ABSENT:
            yield Rule(call, errno.ENOSYS)
        elif call not in CONDITIONAL:
            yield Rule(call, errno.EPERM)
    yield Rule("open", errno.EPERM, any_bit=((1, CREATING), (2, SET_ID)))
    yield Rule("openat", errno.EPERM, any_bit=((2, CREATING), (3, SET_ID)))
    for call, argument in MODES.items():
        yield Rule(call, errno.EPERM, any_bit=((argument, SET_ID),))
    yield Rule("clone", errno.EPERM, any_bit=((0, NEW_NAMESPACES),))
    yield Rule("ioctl", errno.EPERM, one_of=(1, INJECTING))
    for call in ("socket", "socketpair"):
        yield Rule(call, errno.EAFNOSUPPORT, none_of=(0, FAMILIES))
    yield Rule("fallocate", errno.EOPNOTSUPP)  # it allocates gigabytes faster than the checks
    yield Rule("memfd_secret", errno.ENOSYS)
    yield from _uncounted(counted=counted, sockets_counted=sockets_counted)


def _uncounted(*, counted: bool, sockets_counted: bool) -> Iterator[Rule]:
    """Refuse memory that nothing counts.

    Without a cgroup, memory is summed over what processes have mapped, so none may exist unmapped.
    Some kernels count the messages of System V in no cgroup: record 0065.
    """
    yield Rule("msgget", errno.ENOSYS)
    if not counted:
        yield Rule("mmap", errno.EPERM, any_bit=((3, SHARED), (3, ANONYMOUS)))
        for call in ("shmget", "memfd_create", "semget"):
            yield Rule(call, errno.ENOSYS)
    if not sockets_counted:
        # It succeeds without an effect: programs ask for a size and do not check what they got.
        yield Rule("setsockopt", 0, any_bit=((1, SOL_SOCKET),), one_of=(2, BUFFER_SIZES))


def program(machine: str, *, counted: bool, sockets_counted: bool) -> bytes:
    """The filter as `bwrap --seccomp` reads it: an array of `struct sock_filter`."""
    head = [
        _step(LOAD, ARCHITECTURE),
        _step(JUMP_IF, AUDIT[machine], 1, 0),
        _step(RETURN, KILL_PROCESS),
        _step(LOAD, NUMBER),
        _step(JUMP_AT_LEAST, X32, 0, 1),
        _step(RETURN, ERRNO | errno.ENOSYS),
    ]
    calls = numbers(machine)
    body = [
        step
        for rule in rules(counted=counted, sockets_counted=sockets_counted)
        if rule.call in calls
        for step in _block(calls[rule.call], rule)
    ]
    return b"".join([*head, *body, _step(RETURN, ALLOW)])


def _block(number: int, rule: Rule) -> list[bytes]:
    """Return the rule for one call: other calls jump over it, and its arguments are checked in
    it."""
    tests: list[bytes] = []
    for argument, mask in rule.any_bit:
        tests += [_load(argument), _step(JUMP_ANY_BIT, mask, 1, 0), _step(RETURN, ALLOW)]
    if rule.one_of is not None:
        tests += _membership(*rule.one_of, inside=True)
    if rule.none_of is not None:
        tests += _membership(*rule.none_of, inside=False)
    block = [*tests, _step(RETURN, ERRNO | rule.error)]
    return [_step(JUMP_IF, number, 0, len(block)), *block]


def _membership(argument: int, values: tuple[int, ...], *, inside: bool) -> list[bytes]:
    """Continue if the argument is (`inside`) or is not one of the values; otherwise permit the
    call."""
    jumps = [
        _step(JUMP_IF, value, len(values) - position, 0) for position, value in enumerate(values)
    ]
    over = [] if inside else [_step(JUMP, 1)]
    return [_load(argument), *jumps, *over, _step(RETURN, ALLOW)]


def _load(argument: int) -> bytes:
    return _step(LOAD, ARGUMENTS + 8 * argument)


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)
