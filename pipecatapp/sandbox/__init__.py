"""The sandbox for untrusted programs: bubblewrap with limits.

`Sandbox.run` is the only entry point. If bubblewrap does not work, it raises `SandboxUnusable`;
programs never run without the sandbox.
"""

from pipecatapp.sandbox.bubblewrap import Mount, SandboxUnusable
from pipecatapp.sandbox.limits import Limits, Stopped
from pipecatapp.sandbox.sandbox import Outcome, Sandbox

__all__ = ["Limits", "Mount", "Outcome", "Sandbox", "SandboxUnusable", "Stopped"]
