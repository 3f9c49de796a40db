"""Programs that run on another machine, which fetches each and brings back its result."""

from pipecatapp.tools.code.elsewhere.errands import Errands, NoErrand, Offered

__all__ = ["Errands", "NoErrand", "Offered"]
