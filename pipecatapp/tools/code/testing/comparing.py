"""Compare two runs of the same tests: whether a change made the failing test pass."""

from pipecatapp.tools.code.testing.outcome import Tested


def failing(tested: Tested) -> list[str]:
    """Return the ids of the tests that failed or could not be run."""
    return [case.id for case in tested.tests if case.outcome in ("failed", "error")]


def why_not_fixed(before: Tested, after: Tested) -> str:
    """Say why a change did not fix its test; empty if the first failing test passes and no test
    that passed before fails.

    A file that could not be imported counts as a test: all of its tests have to pass.
    """
    if before.ok or not failing(before):
        return "No test failed before."
    # pytest shows errors before failures, and the first that it shows is the one to repair.
    first = next((one.id for one in before.tests if one.outcome == "error"), failing(before)[0])
    failed = set(failing(after))
    if after.stopped:
        return f"The tests are stopped by their limit of {after.stopped}."
    own = [one for one in after.tests if one.id == first or one.id.startswith(f"{first}::")]
    if not own:
        return f"{first} was not run again."
    if any(one.id in failed for one in own):
        return f"{first} still fails."
    if all(one.outcome == "skipped" for one in own):
        return f"{first} is skipped."
    broken = [case.id for case in before.tests if case.outcome == "passed" and case.id in failed]
    return f"{broken[0]} passed before." if broken else ""


def why_broken(before: Tested | None, after: Tested) -> str:
    """Say which of the other tests a change broke; empty if they pass, or if those that fail also
    failed before.
    """
    if after.ok:
        return ""
    known = before is not None and not before.ok and before.per_test
    if after.stopped or not known or not after.per_test:
        return "The other tests fail."
    assert before is not None
    failed = set(failing(after))
    broken = [case.id for case in before.tests if case.outcome == "passed" and case.id in failed]
    return f"{broken[0]} passed before." if broken else ""
