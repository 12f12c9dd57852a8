"""Accounting: every input in one bucket, and the buckets add up."""

import pytest

from stillroom.schemas.rejects import Accounting, Reject, RejectReason


def test_read_is_the_sum_of_the_buckets():
    made = Accounting(5, 4, 3, 2, 1, {"empty": 1, "corrupt": 1})
    assert made.read == 15
    assert made.error_rate == pytest.approx(3 / 15)


def test_an_empty_run_has_no_errors():
    assert Accounting().read == 0
    assert Accounting().error_rate == 0.0


@pytest.mark.parametrize(
    ("rejected", "reasons"), [(1, {}), (0, {"empty": 1}), (3, {"empty": 1, "binary": 1})]
)
def test_reasons_must_add_up(rejected, reasons):
    with pytest.raises(ValueError, match=f"{rejected} inputs were rejected"):
        Accounting(rejected=rejected, reasons=reasons)


def test_reasons_are_short_words():
    assert all(reason.value.replace("_", "").isalpha() for reason in RejectReason)
    assert Reject("u", "read", RejectReason.EMPTY).reason == "empty"
