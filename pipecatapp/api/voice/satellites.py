"""The Wyoming server of this service, as configured by the settings."""

from pipecatapp.api.parts import Parts
from pipecatapp.api.voice.runner import Runner
from pipecatapp.settings import Settings
from pipecatapp.voice.satellites.conversation import Conversations
from pipecatapp.voice.satellites.listener import Satellites
from pipecatapp.voice.studio import Studio


async def open_satellites(settings: Settings, studio: Studio, parts: Parts) -> Satellites:
    """Listens where a port is set, calls the satellites that are named. Raises `CannotListen`."""
    conversations = Conversations(
        studio, lambda: Runner(parts, studio.keeps), settings.voice_satellite
    )
    satellites = Satellites(conversations, settings.wyoming_peers)
    if settings.wyoming_port:
        await satellites.listen(settings.wyoming_host, settings.wyoming_port)
    for address in settings.satellites:
        satellites.call(address)
    return satellites
