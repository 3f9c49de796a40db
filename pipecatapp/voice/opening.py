"""Open the voice sessions of an instance."""

from hearth.service.names import SPEECH_STT, SPEECH_TTS
from pipecatapp.application.container import gateway_key
from pipecatapp.application.status import Directory
from pipecatapp.settings import Settings, worker_environment
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.studio import Studio
from pipecatapp.voice.workers import Workers


def studio_of(settings: Settings, directory: Directory, metrics: VoiceMetrics) -> Studio:
    """Where people talk with the agent; nothing runs before `open` or the first conversation."""

    async def engines() -> tuple[str | None, str | None]:
        services = sorted(await directory.places.services(), key=lambda found: not found.healthy)
        first = {found.name: found.url for found in reversed(services)}
        return first.get(SPEECH_STT), first.get(SPEECH_TTS)

    return Studio(
        Workers(
            worker_environment(),
            metrics,
            most_bytes=settings.voice_worker_bytes,
            udp_ports=settings.voice_udp_ports,
        ),
        metrics,
        engines,
        key=gateway_key(settings),
        ca_file=settings.tls_ca_file,
        most=settings.voice_sessions,
        keeps=settings.voice_transcripts,
        manners=settings.voice_browser,
        idle_seconds=settings.voice_idle_seconds,
    )
