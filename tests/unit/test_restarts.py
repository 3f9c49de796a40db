"""How often a process that ends is started again."""

from hearth.process.child import describe_exit
from hearth.process.restarts import RestartPolicy, Restarts


def test_pauses_double_up_to_the_longest_one() -> None:
    """A service that crashes at once must not occupy the machine with its restarts."""
    policy = RestartPolicy()

    assert [policy.pause(deaths) for deaths in range(1, 7)] == [0.5, 1, 2, 4, 8, 8]


def test_a_process_that_keeps_ending_is_given_up() -> None:
    """Only the ends within the window count."""
    often = Restarts(RestartPolicy(deaths=2, window=60))
    seldom = Restarts(RestartPolicy(deaths=2, window=0))

    assert [often.next_pause() for _ in range(4)] == [0.5, 1, None, None]
    assert [seldom.next_pause() for _ in range(4)] == [0.5] * 4


def test_text_of_an_end_names_the_exit_code_or_the_signal() -> None:
    """It is the same text in every log, message and status."""
    assert [describe_exit(code) for code in (0, 3, -9, -15)] == [
        "exit code 0",
        "exit code 3",
        "SIGKILL",
        "SIGTERM",
    ]
