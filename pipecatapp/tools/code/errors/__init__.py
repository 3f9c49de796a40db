"""Find the error of a program in what it printed.

`error_of` is the entry. Each module of `families` reads the output of one kind of program. See
"Add a language" in `docs/howto/run-programs.md`.
"""

from pipecatapp.tools.code.errors.parse import error_of
from pipecatapp.tools.code.errors.result import Frame, ProgramError

__all__ = ["Frame", "ProgramError", "error_of"]
