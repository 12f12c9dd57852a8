"""Where tests may kill or fail a build. Nothing happens unless STILLROOM_FAULT names the point.

`STILLROOM_FAULT=NAME` dies at the point NAME as by `kill -9`; `NAME:3` the third time it is reached;
`raise@NAME` raises there instead, as a worker may. The crash tests compare what a re-run makes of the
remains with a build that nothing disturbed.
"""

import os
import signal

VARIABLE = "STILLROOM_FAULT"


class InjectedFault(RuntimeError):
    """A test asked for this failure."""


def point(name: str) -> None:
    """Fail here, if this is the point that was named."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    way, _, place = wanted.rpartition("@")
    place, _, count = place.partition(":")
    if place != name:
        return
    left = int(count or 1) - 1
    if left > 0:
        os.environ[VARIABLE] = f"{way}@{place}:{left}" if way else f"{place}:{left}"
        return
    if way == "raise":
        raise InjectedFault(f"injected at {name}")
    os.kill(os.getpid(), signal.SIGKILL)
