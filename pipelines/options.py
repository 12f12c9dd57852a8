"""Beam options: the local runner by default, any other after `--`, typing errors refused."""

import logging
from collections.abc import Sequence
from typing import NoReturn

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from stillroom.errors import BadInput

LOCAL_RUNNER = "FnApiRunner"  # by name: plain DirectRunner first tries to download another runner
REFUSED = {"DaskRunner": "it loses the output of finish_bundle and tagged outputs without an error"}


class _Parser(_BeamArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"Beam options: {message}")


def pipeline_options(workers: int, flags: Sequence[str]) -> PipelineOptions:
    """Options for a build. `workers` processes on the local runner, where `flags` name no other.

    Raises BadInput for an unknown flag (Beam itself ignores it), a refused runner or a bad number.
    """
    if workers < 1:
        raise BadInput(f"--workers is at least 1, not {workers}")
    parser = _Parser(add_help=False, allow_abbrev=False)
    for part in PipelineOptions.__subclasses__():
        part._add_argparse_args(parser)
    known, unknown = parser.parse_known_args(list(flags))
    if unknown:
        raise BadInput(f"Beam has no option {' '.join(unknown)}")
    runner = (known.runner or LOCAL_RUNNER).rsplit(".", 1)[-1]
    if runner in REFUSED:
        raise BadInput(f"{runner} is refused: {REFUSED[runner]}")
    made = [*flags, "--no_save_main_session"]
    if not known.runner:
        made.append(f"--runner={LOCAL_RUNNER}")
        if workers > 1:
            made += [f"--direct_num_workers={workers}", "--direct_running_mode=multi_processing"]
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    return PipelineOptions(made)
