"""The magic packet of wake-on-LAN.

Source: AMD, *Magic Packet Technology*, publication 20213, 1995: six bytes 0xFF, then the hardware
address of the card sixteen times. A sleeping card looks for it anywhere in a frame.
"""

import re
import socket
from typing import Final

PORT: Final = 9
"""The UDP port *discard*, the usual one: no host answers it."""

MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def magic_packet(mac: str) -> bytes:
    """Return the 102 bytes for a hardware address such as `02:00:00:aa:bb:cc`.

    Raises `ValueError` if it is not a valid address.
    """
    if not MAC.fullmatch(mac):
        raise ValueError(f"'{mac}' is not a hardware address: write it as 02:00:00:aa:bb:cc.")
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


def send(mac: str, address: str, port: int = PORT) -> None:
    """Send the magic packet once to an IPv4 address, which may be a broadcast address.

    Raises `OSError` if this machine has no route to it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(magic_packet(mac), (address, port))
