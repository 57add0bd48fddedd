"""What a person sees, on a terminal and in a log."""

import io

from pipelines.records.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_is_rewritten_and_a_notice_starts_a_new_one() -> None:
    stream = Terminal()
    console = Console(stream)
    console.progress("1/9", force=True)
    console.progress("2/9", force=True)
    console.warn("an actor died")
    assert stream.getvalue() == "\r\033[K1/9\r\033[K2/9\nwarning: an actor died\n"


def test_in_a_log_progress_is_a_plain_line_now_and_then() -> None:
    stream = io.StringIO()
    console = Console(stream)
    for done in range(100):
        console.progress(f"{done}/100")
    assert stream.getvalue() == "0/100\n"


def test_quiet_keeps_warnings_and_errors() -> None:
    stream = io.StringIO()
    console = Console(stream, quiet=True)
    console.say("notice")
    console.progress("1/9", force=True)
    console.warn("careful")
    console.fail("broken")
    assert stream.getvalue() == "warning: careful\nerror: broken\n"
