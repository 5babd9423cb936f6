"""The constant C, measured."""

import math

import pytest

from strongticket.theory import calibrate_C
from strongticket.theory.calibrate import _measure, fewest_problems
from strongticket.theory.practice import Practice


def test_small_problems():
    found = calibrate_C(eps=0.1, problems=2000)
    assert found.items_lower <= found.items <= found.items_upper
    assert pytest.approx(found.items / math.log(10)) == found.C
    assert found.theory_items == 3  # ⌈log(1/0.1)⌉ = ⌈2.30⌉
    assert found.shares[-1].upper <= 0.1
    assert [share.items for share in found.shares] == list(range(4, found.items_upper + 1))


def test_the_same_seed_gives_the_same_answer():
    assert calibrate_C(eps=0.2, problems=300, seed=5) == calibrate_C(eps=0.2, problems=300, seed=5, threads=1)
    assert calibrate_C(eps=0.2, problems=300, seed=5) != calibrate_C(eps=0.2, problems=300, seed=6)


def test_single_uniforms_need_fewer_items_than_products():
    assert calibrate_C(eps=0.03, law="U", problems=2000).items < calibrate_C(eps=0.03, problems=2000).items


def test_a_failure_probability_of_its_own():
    found = calibrate_C(eps=0.05, failure=0.3, problems=1000)
    assert pytest.approx(found.items / math.log(1 / 0.05)) == found.C
    assert found.items <= calibrate_C(eps=0.05, problems=1000).items


@pytest.mark.parametrize(("law", "published"), [("U*U", 0.0355), ("U", 0.0040)])
def test_agrees_with_published_draws(law, published):
    # 100,000 published draws, 15 items: best error above 0.01 in 3.55 % (U·U) and 0.40 % (U)
    share = _measure(15, 0.01, law, 20_000, 0.9999, 0, None)
    assert share.lower < published < share.upper


@pytest.mark.parametrize(
    ("failures_of", "lower", "upper"),
    # Clopper-Pearson, 95 %, 10 trials: 0 failures [0, 1 - 0.025^(1/10)], 10 failures [0.025^(1/10), 1]
    [(1e-9, 0.025**0.1, 1.0), (1e9, 0.0, 1 - 0.025**0.1)],
)
def test_interval_by_hand(failures_of, lower, upper):
    share = _measure(1, failures_of, "U", 10, 0.95, 0, None)
    assert (share.lower, share.upper) == pytest.approx((lower, upper), rel=1e-9)


def test_fewest_problems_by_hand():
    # (1 - 0.01)^n ≤ 0.025 from n = log(0.025)/log(0.99) = 367.04 on
    assert fewest_problems(0.01) == 368


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eps": 0.0}, "0 < eps < 1"),
        ({"eps": float("nan")}, "0 < eps < 1"),
        ({"failure": 1.0}, "0 < failure < 1"),
        ({"confidence": 0.0}, "0 < confidence < 1"),
        ({"law": "N"}, "knows the laws"),
        ({"problems": 10}, "use problems >= 36"),
        ({"max_items": 5}, "raise max_items or eps"),
    ],
)
def test_what_it_refuses(wrong, message):
    with pytest.raises(ValueError, match=message):
        calibrate_C(**({"eps": 0.1, "problems": 500} | wrong))


def test_practice_measures_what_it_can_and_says_so():
    practice = Practice(problems=500)
    easy, hard = practice.items(math.log(10)), practice.items(math.log(1e9))
    assert (easy.measured, hard.measured) == (True, False)
    assert easy.calibration.eps == pytest.approx(0.1)
    assert hard.count == math.ceil(hard.calibration.C * math.log(1e9))
    assert practice.items(5000.0).measured is False
