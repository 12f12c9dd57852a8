"""What stages say of their work: counts that add up over processes, time without what others do."""

import time

import apache_beam as beam

from stillroom.transforms.stages import (
    StageCounter,
    read_progress,
    stage_seconds,
    timed,
    timed_each,
)


def test_progress_is_summed_by_stage(tmp_path):
    assert read_progress(str(tmp_path)) == {}
    one, two = StageCounter(str(tmp_path), "read"), StageCounter(str(tmp_path), "read")
    other = StageCounter(str(tmp_path), "write")
    for counter, count in ((one, 3), (two, 4), (one, 5), (other, 1)):
        counter.add(count)
        counter.flush()
    assert read_progress(str(tmp_path)) == {"read": 12, "write": 1}


def test_a_broken_counter_is_left_out(tmp_path):
    StageCounter(str(tmp_path), "read").flush()
    (tmp_path / "progress" / "read.1.2").write_text("x")
    assert read_progress(str(tmp_path)) == {"read": 0}


def slowly(count):
    for number in range(count):
        time.sleep(0.02)
        yield number


def work(_):
    for number in timed_each("read", slowly(5)):
        time.sleep(0.03)  # what is done with an item is not the stage's own time
        with timed("shape"):
            time.sleep(0.01)
        yield number


def test_time_is_summed_by_stage_without_that_of_others():
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([1, 2]) | beam.FlatMap(work)
    result = pipeline.run()
    result.wait_until_finish()
    seconds = stage_seconds(result.metrics())
    assert set(seconds) == {"read", "shape"}
    assert 0.2 <= seconds["read"] < 0.29
    assert 0.1 <= seconds["shape"] < 0.2
