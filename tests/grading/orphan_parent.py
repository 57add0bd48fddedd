"""A parent with a busy or idle grading child; prints the child's process id and waits to be killed."""

import sys
import time

from grading import GradingItem, GradingLimits, GradingProcess

if __name__ == "__main__":
    process = GradingProcess(GradingLimits(deadline_s=1.0), program="tests.grading.stubborn_child")
    print(process.pid, flush=True)
    if sys.argv[1] != "idle":
        process.supervisor.limits = GradingLimits(deadline_s=600.0)
        process.grade_batch([GradingItem(f"fault:{sys.argv[1]}", "1")])
    time.sleep(600)
