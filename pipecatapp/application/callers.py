"""The caller on whose behalf a run works: its header, its name, and how a run keeps it."""

from pipecatapp.tools.model.behalf import CALLER, kept, owner_of

__all__ = ["CALLER", "kept", "owner_of"]
