"""Beam options: a local runner by default, mistakes refused before a pipeline starts."""

import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
)

from stillroom.errors import BadInput
from stillroom.pipelines.options import pipeline_options


def test_the_local_runner_is_named():
    made = pipeline_options(1, [])
    assert made.view_as(StandardOptions).runner == "FnApiRunner"
    assert made.view_as(DirectOptions).direct_running_mode == "in_memory"
    assert made.view_as(SetupOptions).save_main_session is False


def test_workers_are_processes():
    made = pipeline_options(3, []).view_as(DirectOptions)
    assert (made.direct_num_workers, made.direct_running_mode) == (3, "multi_processing")


def test_another_runner_keeps_its_own_workers():
    made = pipeline_options(4, ["--runner=PortableRunner", "--job_endpoint=localhost:1"])
    assert made.view_as(StandardOptions).runner == "PortableRunner"
    assert made.view_as(DirectOptions).direct_num_workers == 1


@pytest.mark.parametrize(
    "flags",
    [["--runner=DaskRunner"], ["--runner", "apache_beam.runners.dask.dask_runner.DaskRunner"]],
)
def test_a_runner_that_loses_output_is_refused(flags):
    with pytest.raises(BadInput, match="DaskRunner is refused: it loses"):
        pipeline_options(1, flags)


@pytest.mark.parametrize("flag", ["--runer=x", "--not_an_option", "stray", "--kb_unknown=1"])
def test_an_unknown_flag_is_refused(flag):
    with pytest.raises(BadInput, match=f"no option {flag}"):
        pipeline_options(1, [flag])


@pytest.mark.parametrize("flags", [["--streaming=maybe"], ["--direct_num_workers=two"]])
def test_a_value_that_cannot_be_is_refused(flags):
    with pytest.raises(BadInput):
        pipeline_options(1, flags)


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_are_at_least_one(workers):
    with pytest.raises(BadInput, match=f"at least 1, not {workers}"):
        pipeline_options(workers, [])


def test_other_pipelines_of_the_process_are_not_broken():
    pipeline_options(1, [])
    assert PipelineOptions([]).view_as(StandardOptions).runner is None
