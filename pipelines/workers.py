"""Worker processes of the local runner: where their logging goes, and what a failed run says."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillroom.errors import StillroomError
from stillroom.folders import Folder


class BuildFailed(StillroomError):
    """A stage raised. What was served before still is."""


@contextmanager
def workers_log_to(path: Path) -> Iterator[None]:
    """Send what worker processes write to standard error to a file, while this block runs.

    Beam starts them with logging at INFO and no option to change it. This process's own
    `sys.stderr` still reaches the terminal, by a copy of the descriptor.
    """
    ours = sys.stderr
    ours.flush()
    kept = os.dup(2)
    with path.open("ab") as log, os.fdopen(kept, "w", buffering=1, closefd=True) as copy:
        os.dup2(log.fileno(), 2)
        sys.stderr = copy
        try:
            yield
        finally:
            copy.flush()
            os.dup2(kept, 2)
            sys.stderr = ours


@contextmanager
def failures_reported(folder: Folder, name: str) -> Iterator[None]:
    """Turn whatever a runner raises into one line, the whole of it kept in the file `name`."""
    try:
        yield
    except (StillroomError, KeyboardInterrupt):
        raise
    except BaseException as error:  # tantivy and lance panic with exceptions of their own
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        report = f"the whole report: {folder.uri}/{name}"
        try:
            folder.write(name, traceback.format_exc().encode("utf-8", "backslashreplace"))
        except StillroomError:  # a full disk is why it failed, perhaps
            report = "the whole report could not be written"
        raise BuildFailed(f"the build failed: {summary(error)}\n{report}") from error


def summary(error: BaseException) -> str:
    """The line of an exception that says what happened; Beam puts it last, behind its own frames."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:500]
