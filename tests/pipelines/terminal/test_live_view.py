"""The live view on a real pseudo-terminal."""

import re
import signal
import sys

from tests.pipelines.terminal.screen import Terminal

SHOW = [sys.executable, "-m", "tests.pipelines.terminal.show"]
NOTICES = [
    "before",
    "warning: an actor died",
    "printed by a library",
    "half a line and its end",
    "logged by a library",
    "after",
]


def test_the_view_is_drawn_in_place_below_what_others_write_and_leaves_no_trace() -> None:
    terminal = Terminal([*SHOW, "calm"])
    before = terminal.settings()
    terminal.read_until(lambda: "logged by a library" in terminal.screen.text and "12/20" in terminal.screen.text)
    text = terminal.screen.text
    for part in (
        "a run",
        "60%",
        "about 12 s left",
        "step-3: 5 of 8 completions",
        "accuracy 41.2%   570 tokens/s   93% of the places taken",
        "reward/mean ▁▃ █",
        "7 correct   2 wrong   1 unparsed   0 timeout   0 error",
        "generator-0  CPU, 2 threads on 127.0.0.1  8 rows, 3 waiting  570 tokens/s  93% full",
        "1 starting",
        "warning: an actor died",
    ):
        assert part in text, text
    assert text.count("/20 samples") == 1
    assert re.search(r"\d s ago  warning: an actor died", text)
    assert text.index("before") < text.index("printed by a library") < text.index("half a line and its end")
    assert text.index("half a line and its end") < text.index("/20 samples")
    assert terminal.finish() == 0
    assert terminal.screen.text.splitlines() == NOTICES
    assert terminal.settings() == before


def test_an_exception_takes_the_view_away_and_is_shown_whole() -> None:
    terminal = Terminal([*SHOW, "raise"])
    assert terminal.finish() == 1
    assert "/20 samples" not in terminal.screen.text
    assert terminal.screen.text.endswith("ValueError: broken in the middle")


def test_a_kill_leaves_a_terminal_that_works() -> None:
    """No hidden cursor, no other screen, nothing switched on that a dead process cannot switch off."""
    terminal = Terminal([*SHOW, "killed"])
    before = terminal.settings()
    terminal.finish()
    assert "/20 samples" in terminal.screen.text
    assert set(re.findall(r"\033\[[\d;?]*([A-Za-z])", terminal.screen.raw)) <= {"m", "A", "J"}
    assert terminal.settings() == before


def test_colours_are_off_by_no_color() -> None:
    plain, coloured = Terminal([*SHOW, "calm"], NO_COLOR="1"), Terminal([*SHOW, "calm"])
    assert (plain.finish(), coloured.finish()) == (0, 0)
    colour = re.compile(r"\033\[(?:\d+;)*(?:3[0-7]|38|9[0-7])(?:;\d+)*m")
    assert colour.search(coloured.screen.raw)
    assert not colour.search(plain.screen.raw)


def test_a_terminal_that_shrinks_and_grows_keeps_one_view_and_no_line_wider_than_itself() -> None:
    terminal = Terminal([*SHOW, "resized"], columns=100)
    terminal.read_until(lambda: "3/20" in terminal.screen.text)
    terminal.resize(40, 10)
    terminal.process.send_signal(signal.SIGUSR1)
    terminal.read_until(lambda: "9/20" in terminal.screen.text)
    lines = terminal.screen.text.splitlines()
    assert max(map(len, lines)) < 40
    assert len(lines) <= 9 + len(NOTICES)
    assert terminal.screen.text.count("a run") == 1
    terminal.resize(120, 40)
    terminal.process.send_signal(signal.SIGUSR1)
    assert terminal.finish() == 0
    assert terminal.screen.text.splitlines() == NOTICES
