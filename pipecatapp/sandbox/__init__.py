"""Programs that nobody has read, run where they can harm nothing: bubblewrap and its limits.

`Sandbox.run` is the one way in. Where bubblewrap cannot work it raises `SandboxUnusable`; there is
no other way to run a program.
"""

from pipecatapp.sandbox.bubblewrap import Mount, SandboxUnusable
from pipecatapp.sandbox.limits import Limits, Stopped
from pipecatapp.sandbox.sandbox import Outcome, Sandbox

__all__ = ["Limits", "Mount", "Outcome", "Sandbox", "SandboxUnusable", "Stopped"]
