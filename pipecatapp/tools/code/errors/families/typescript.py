"""Messages of the TypeScript compiler, with and without `--pretty`.

    output  = { any line | message }
    message = [ "F(N,C): " | "F:N:C - " ] "error TS" digits ": " text { "  " more }

The first error counts.
"""

from typing import Final

from pipecatapp.tools.code.errors.lines import Output, location, number
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

MARK: Final = "error TS"
MORE: Final = 20
"""Further lines of a message."""


def parse(output: Output) -> ProgramError | None:
    """Return the first error of the compiler."""
    for lines in output.streams:
        for index, line in enumerate(lines):
            place, mark, rest = line.partition(MARK)
            code, _, text = rest.partition(": ")
            if not mark or number(code) is None:
                continue
            message = [text]
            for more in lines[index + 1 : index + MORE]:
                if not more.startswith("  "):
                    break
                message.append(more)
            return program_error(f"TS{code}", "\n".join(message), _frames(place))
    return None


def _frames(place: str) -> list[Frame]:
    """Read the place before a message."""
    if place.endswith(" - "):
        found = location(place.removesuffix(" - "))
        return [frame(found.file, found.line)] if found else []
    file, _, numbers = place.removesuffix("): ").rpartition("(")
    return [frame(file, number(numbers.partition(",")[0]))] if file else []
