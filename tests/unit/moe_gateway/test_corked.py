"""The head of an answer leaves with its body, but never waits for it."""

import asyncio

from moe_gateway.callers.corked import Cork

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Kernel(asyncio.Transport):
    """Keeps each write, as the kernel would get it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.packets: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.packets.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def test_head_and_first_piece_are_one_write() -> None:
    """Two writes are two packets, and half of what a small answer costs."""
    kernel = Kernel()
    cork = Cork(kernel)

    cork.write(HEAD)
    cork.write(b"body")
    cork.write(b"more")
    await asyncio.sleep(0)

    assert kernel.packets == [HEAD + b"body", b"more"]


async def test_head_alone_leaves_as_soon_as_the_loop_is_free() -> None:
    """A stream that says so early that it will come must not look silent."""
    kernel = Kernel()

    Cork(kernel).write(HEAD)
    await asyncio.sleep(0)

    assert kernel.packets == [HEAD]


async def test_head_leaves_before_the_connection_is_closed() -> None:
    """An answer without a body, such as to HEAD, ends with its head."""
    kernel = Kernel()
    cork = Cork(kernel)

    cork.write(HEAD)
    cork.close()

    assert (kernel.packets, kernel.closed) == ([HEAD], True)
    assert cork.get_extra_info("peername") == ("127.0.0.1", 1)
