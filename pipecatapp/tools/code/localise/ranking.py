"""Which functions are the most suspicious: Ochiai's measure, the traceback and names.

The measure of a line is `ef / sqrt((ef + nf) * (ef + ep))`: `ef` failing tests run it and `nf` do
not, `ep` passing tests run it (A. Ochiai 1957; R. Abreu et al. 2006). A function has the measure of
its most suspicious line. Evidence of three kinds is added to it, with weights that were chosen on
305 mutants of toolz and networkx: the function is in the traceback of a failing test, the test file
is named after its module, the test is named after the function.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import PurePosixPath
from typing import Final

from pipecatapp.tools.code.localise.functions import Function, Functions
from pipecatapp.tools.code.localise.trace import Place, Trace

IN_TRACEBACK: Final = 0.2
OF_MODULE: Final = 0.3
NAMED: Final = 0.2
"""The weight if the name of the test has no other words; else their share of it."""
MOST: Final = 1 + IN_TRACEBACK + OF_MODULE + NAMED
WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

Order = tuple[float, int, float, Function]


def rank(
    failing: Sequence[Trace], passing: Sequence[Trace], functions: Functions
) -> list[tuple[Function, float]]:
    """Return functions with their scores from 0 to 1, the most suspicious first.

    Of equal scores, first is the function that is deeper in the traceback, then the one that
    passing tests call more often. Then file and line decide.
    """
    measures = _measures(failing, passing, functions)
    depths = _depths(failing, functions)
    calls = _calls(failing, passing, functions)
    scores = {
        function: round(
            (measures.get(function, 0.0) + _evidence(function, failing, depths)) / MOST, 4
        )
        for function in {*measures, *depths}
    }

    def order(function: Function) -> Order:
        return -scores[function], -depths.get(function, 0), calls.get(function, 0.0), function

    return [(function, scores[function]) for function in sorted(scores, key=order)]


def _evidence(
    function: Function, failing: Sequence[Trace], depths: Mapping[Function, int]
) -> float:
    """Return what the traceback and the names of the failing tests add to the measure."""
    ids = [trace.test for trace in failing]
    return (
        IN_TRACEBACK * (function in depths)
        + OF_MODULE * any(_is_module_of(function, test) for test in ids)
        + NAMED * max(_share_named(function, test) for test in ids)
    )


def _ochiai(failed: int, passed: int, failing: int) -> float:
    """Return the measure of what `failed` of all `failing` tests and `passed` others run."""
    return failed / sqrt(failing * (failed + passed)) if failed else 0.0


def _measures(
    failing: Sequence[Trace], passing: Sequence[Trace], functions: Functions
) -> dict[Function, float]:
    """Return the measure of the most suspicious line of each function."""
    failed: Counter[Place] = Counter(line for trace in failing for line in trace.lines)
    passed: Counter[Place] = Counter(line for trace in passing for line in trace.lines)
    measures: dict[Function, float] = {}
    for line, count in failed.items():
        if function := functions.at(*line):
            measure = _ochiai(count, passed[line], len(failing))
            measures[function] = max(measure, measures.get(function, 0.0))
    return measures


def _calls(
    failing: Sequence[Trace], passing: Sequence[Trace], functions: Functions
) -> dict[Function, float]:
    """Return the measure of each function as a whole: 1 if only the failing tests call it."""
    failed, passed = (
        Counter(
            function
            for trace in traces
            for function in {functions.at(*line) for line in trace.lines}
            if function is not None
        )
        for traces in (failing, passing)
    )
    return {one: _ochiai(count, passed[one], len(failing)) for one, count in failed.items()}


def _depths(failing: Sequence[Trace], functions: Functions) -> dict[Function, int]:
    """Return the place of each function in the tracebacks: 1 is the outermost call."""
    depths: dict[Function, int] = {}
    for trace in failing:
        for depth, (file, line) in enumerate(trace.frames, 1):
            function = functions.at(file, line) or functions.module(file)
            if function is not None:
                depths[function] = max(depth, depths.get(function, 0))
    return depths


def _share_named(function: Function, test: str) -> float:
    """Return which part of the words of a test's name is the name of the function."""
    _, _, names = test.partition("[")[0].partition("::")
    wanted, words = _words(function.symbol.rpartition(".")[2]), _words(names) - {"test"}
    return len(wanted) / len(words) if words and wanted and wanted <= words else 0.0


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def _is_module_of(function: Function, test: str) -> bool:
    tested = PurePosixPath(test.partition("::")[0]).stem.removeprefix("test_").removesuffix("_test")
    return PurePosixPath(function.file).stem == tested
