"""The search plan refuses what no engine could run."""

import pytest

from stillroom.schemas.plan import SearchPlan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"legs": ()}, "legs are"),
        ({"legs": ("lexical", "graph")}, "graph"),
        ({"dense_weight": -0.01}, "-0.01"),
        ({"dense_weight": 1.01}, "1.01"),
        ({"dense_weight": float("nan")}, "nan"),
        ({"depth": 0}, "0, 400"),
        ({"rescore": 0}, "1000, 0"),
        ({"dims": -1}, "-1, 'f32'"),
        ({"dtype": "i4"}, "0, 'i4'"),
    ],
)
def test_wrong_values_are_refused_with_their_value(change, message):
    with pytest.raises(ValueError, match=message):
        SearchPlan(**change)


@pytest.mark.parametrize("change", [{"legs": ("dense",)}, {"dense_weight": 0}, {"dense_weight": 1}])
def test_ends_of_ranges_are_inside(change):
    (name, value), *_ = change.items()
    assert getattr(SearchPlan(**change), name) == value


def test_plans_do_not_share_their_defaults():
    assert SearchPlan().field_weights is not SearchPlan().field_weights
