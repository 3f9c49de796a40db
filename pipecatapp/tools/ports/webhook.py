"""The port `messages` on incoming webhooks as Slack defined them, which others accept as well.

Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
"""

from typing import Final

import httpx2

from pipecatapp.tools.ports.port import PortSettings
from pipecatapp.workflow import ToolFailed

SECONDS: Final = 20.0


class Webhook:
    """One channel. Its address allows writing to it and is therefore a secret."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def send(self, text: str) -> None:
        """Write a message to the channel."""
        try:
            async with httpx2.AsyncClient(timeout=SECONDS, trust_env=False) as client:
                answer = await client.post(self._address, json={"text": text})
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ToolFailed(f"The webhook does not answer: {type(error).__name__}.") from error
        if not answer.is_success:
            raise ToolFailed(f"The webhook refuses the message: {answer.status_code}.")


def messages(settings: PortSettings, token: str) -> Webhook:
    """The channel whose address is the secret, or `url`."""
    address = token or settings.url
    if not address.startswith(("http://", "https://")):
        raise ToolFailed("The address of the webhook must begin with https:// or http://.")
    return Webhook(address)
