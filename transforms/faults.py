"""Where tests may kill a build. Nothing happens unless STILLROOM_FAULT names the point.

The crash tests (`tests/test_crash.py`) kill a child process with SIGKILL at each point in turn, and compare what a
re-run makes of the remains with a build that nothing disturbed.
"""

import os
import signal

VARIABLE = "STILLROOM_FAULT"


def point(name: str) -> None:
    """Die here, as by `kill -9`, if this is the point that was named (`name` or `name:count`)."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    place, _, count = wanted.partition(":")
    if place != name:
        return
    left = int(count or 1) - 1
    if left > 0:
        os.environ[VARIABLE] = f"{place}:{left}"
        return
    os.kill(os.getpid(), signal.SIGKILL)
