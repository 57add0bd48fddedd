"""What the command says to its caller."""

from enum import IntEnum


class ExitCode(IntEnum):
    """PREEMPTED is what a shell reports for a process that SIGTERM ended; the run can be resumed."""

    COMPLETE = 0
    ERROR = 1
    BAD_CONFIGURATION = 2
    RESOURCES_MISSING = 3
    ABOVE_ERROR_THRESHOLD = 4
    PREEMPTED = 143
