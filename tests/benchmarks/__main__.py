"""`python -m tests.benchmarks [ID …]`: run all benchmarks, or those whose id begins so."""

import signal
import sys

from tests.benchmarks.machine import facts
from tests.benchmarks.registry import BENCHMARKS
from tests.benchmarks.report import verdict, write


def main() -> None:
    """Exit code 0 when they ran, whatever they found; 2 when no id fits."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # What was started is stopped.
    wanted = tuple(sys.argv[1:])
    chosen = [one for one in BENCHMARKS if not wanted or one.id.startswith(wanted)]
    if not chosen:
        known = ", ".join(one.id for one in BENCHMARKS)
        sys.stderr.write(f"No benchmark begins with {' or '.join(wanted)}. Known: {known}\n")
        sys.exit(2)
    for benchmark in chosen:
        entry = benchmark.entry(facts())
        write([entry])
        sys.stdout.write(
            f"{entry['id']}: {entry['ours']:g} against {entry['peer']:g} {entry['unit']},"
            f" ratio {entry['ratio']:g}, goal {verdict(entry)}\n"
        )


if __name__ == "__main__":
    main()
