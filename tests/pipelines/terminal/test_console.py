"""Notices, warnings and progress in a log, and on a terminal that cannot draw."""

import io
from collections.abc import Callable

import pytest

from pipelines.terminal.console import Console
from pipelines.terminal.status import Status, duration


class Dumb(io.StringIO):
    def isatty(self) -> bool:
        return True


def status(done: int) -> Callable[[], Status]:
    return lambda: Status("a run", done, 100, "samples", figures=["accuracy 80.0%"], seconds_left=25.0)


def test_in_a_log_progress_is_a_whole_line_at_most_every_ten_seconds() -> None:
    now = [0.0]
    stream = io.StringIO()
    console = Console(stream, clock=lambda: now[0])
    for done in range(100):
        now[0] += 0.25
        console.show(status(done))
    console.close()
    lines = stream.getvalue().splitlines()
    assert [line.partition("/")[0] for line in lines] == ["0", "40", "80"]
    assert lines[0] == "0/100 samples, accuracy 80.0%, about 25 s left"


def test_a_dumb_terminal_gets_the_lines_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Dumb()
    console = Console(stream)
    console.show(status(1))
    console.close()
    assert not console.live
    assert stream.getvalue() == "1/100 samples, accuracy 80.0%, about 25 s left\n"


def test_quiet_keeps_warnings_and_errors() -> None:
    stream = io.StringIO()
    console = Console(stream, quiet=True)
    console.say("notice")
    console.show(status(1))
    console.warn("careful")
    console.fail("broken")
    assert stream.getvalue() == "warning: careful\nerror: broken\n"


def test_control_characters_in_a_text_do_not_reach_a_log() -> None:
    stream = io.StringIO()
    Console(stream).say("50%\r100%\033[2J done\nnext line\x9b1A")
    assert stream.getvalue() == "50%100%[2J done\nnext line1A\n"


def test_durations_are_short() -> None:
    assert [duration(s) for s in (5, 89, 300, 12000)] == ["5 s", "89 s", "5 min", "3 h 20 min"]
