"""The statistics of paired trials, checked by enumeration and by simulation with fixed seeds."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from metier.proof.statistics import (
    LEVEL,
    MAX_PAIRS,
    POWER,
    LiftVerdict,
    compare,
    excludes_difference,
    lift_verdict,
    pairs_needed,
    pass_all,
    pass_at,
    power_of,
    sign_test,
)


def evaluation(random: random.Random, cases: list[tuple[float, float]], repeats: int) -> list[tuple[bool, bool]]:
    """The paired results of a simulated evaluation, with the pass rates of each case in both arms."""
    return [(random.random() < one, random.random() < other) for one, other in cases for _ in range(repeats)]


@functools.cache
def verdict(wins: int, losses: int, pairs: int, unproven: int = 0) -> LiftVerdict:
    """The verdict, worked out once for equal results."""
    return lift_verdict(wins, losses, pairs, unproven=unproven)


def verdicts(cases: list[tuple[float, float]], repeats: int, *, times: int, seed: int = 1) -> Counter[LiftVerdict]:
    """The verdicts of so many simulated evaluations."""
    source = random.Random(seed)
    drawn = (evaluation(source, cases, repeats) for _ in range(times))
    return Counter(verdict(sum(a > b for a, b in one), sum(a < b for a, b in one), len(one)) for one in drawn)


def trinomial(pairs: int, wins: float, losses: float) -> Iterator[tuple[int, int, float]]:
    """The probability of each number of wins and losses."""
    for won in range(pairs + 1):
        for lost in range(pairs + 1 - won):
            tied = pairs - won - lost
            ways = math.comb(pairs, won) * math.comb(pairs - won, lost)
            yield won, lost, ways * wins**won * losses**lost * (1 - wins - losses) ** tied


def test_the_sign_test_is_the_share_of_all_orders_of_heads_and_tails_that_are_as_uneven() -> None:
    for wins, losses in itertools.product(range(7), repeat=2):
        flips = list(itertools.product((1, -1), repeat=wins + losses))
        uneven = sum(abs(sum(flip)) >= abs(wins - losses) for flip in flips)
        assert sign_test(wins, losses) == pytest.approx(uneven / len(flips))


@pytest.mark.parametrize(("discordance", "difference"), [(0.1, 0.1), (0.3, 0.1), (0.5, 0.5), (0.9, 0.3), (1.0, 0.4)])
@pytest.mark.parametrize("pairs", [1, 6, 17, 40])
def test_power_is_that_of_enumerating_all_results(pairs: int, discordance: float, difference: float) -> None:
    wins = (discordance + difference) / 2
    chances = trinomial(pairs, wins, discordance - wins)
    exact = math.fsum(chance for won, lost, chance in chances if sign_test(won, lost) <= LEVEL)
    assert power_of(pairs, discordance, difference) == pytest.approx(exact, abs=1e-9)


RATES = [0.02, 0.2, 0.5, 0.8, 1.0]
"""Pass rates; 1.0 makes all pairs equal."""
MIXED = [0.0, 0.1, 0.5, 0.5, 0.9, 1.0, 1.0]
"""Cases that are never, sometimes and always passed: most pairs are equal."""


@pytest.mark.parametrize("repeats", [1, 3, 5, 20])
@pytest.mark.parametrize("rates", [*([rate] * 5 for rate in RATES), MIXED], ids=[*map(str, RATES), "mixed"])
def test_identical_versions_are_called_different_in_at_most_one_of_twenty_evaluations(
    rates: list[float], repeats: int
) -> None:
    times = 4_000
    found = verdicts([(rate, rate) for rate in rates], repeats, times=times)
    # Three standard errors above the level; the exact test stays below it in expectation.
    assert found["better"] + found["worse"] <= times * LEVEL + 3 * math.sqrt(times * LEVEL * (1 - LEVEL))


def test_identical_versions_are_called_different_in_at_most_one_of_twenty_by_enumeration() -> None:
    for pairs, discordance in itertools.product((5, 12, 30), (0.05, 0.3, 0.7, 1.0)):
        chances = trinomial(pairs, discordance / 2, discordance / 2)
        assert math.fsum(chance for won, lost, chance in chances if sign_test(won, lost) <= LEVEL) <= LEVEL


def test_identical_versions_of_which_the_skill_is_often_unread_are_not_called_different_either() -> None:
    source, times = random.Random(3), 4_000
    different = 0
    for _ in range(times):
        results = evaluation(source, [(0.6, 0.6)] * 30, 1)
        unproven = sum(a > b and source.random() < 0.4 for a, b in results)
        lost = sum(a < b for a, b in results)
        won = sum(a > b for a, b in results)
        different += verdict(won, lost, 30, unproven) in ("better", "worse")
    assert different <= times * LEVEL


@pytest.mark.parametrize(("first", "second"), [(0.9, 0.6), (0.7, 0.4), (0.5, 0.4), (0.3, 0.8)])
@pytest.mark.parametrize("pairs", [10, 25, 60])
def test_a_known_difference_is_found_as_often_as_the_printed_power(first: float, second: float, pairs: int) -> None:
    times = 3_000
    found = verdicts([(first, second)], pairs, times=times, seed=7)
    right: LiftVerdict = "better" if first > second else "worse"
    wins, losses = first * (1 - second), second * (1 - first)
    power = power_of(pairs, wins + losses, abs(wins - losses))
    different = (found["better"] + found["worse"]) / times
    assert different == pytest.approx(power, abs=0.035)
    assert found[right] / times >= power - LEVEL


def test_a_comparison_has_the_verdict_of_its_counts() -> None:
    for wins, losses, ties in itertools.product(range(0, 12, 3), range(0, 12, 4), (0, 40)):
        found = compare([(True, False)] * wins + [(False, True)] * losses + [(False, False)] * ties)
        assert found.verdict == verdict(wins, losses, wins + losses + ties)
        assert (found.wins, found.losses, found.pairs) == (wins, losses, wins + losses + ties)


def test_the_printed_power_is_that_for_a_difference_of_the_bound() -> None:
    found = compare([(True, False)] * 6 + [(False, True)] * 6 + [(True, True)] * 38)
    assert found.power == power_of(50, 13 / 52, 0.1)
    assert round(found.power, 2) == 0.2


@pytest.mark.parametrize("pairs", [1, 2, 3, 5])
def test_no_result_of_five_pairs_decides_anything(pairs: int) -> None:
    for wins in range(pairs + 1):
        for losses in range(pairs + 1 - wins):
            found = compare(
                [(True, False)] * wins + [(False, True)] * losses + [(True, True)] * (pairs - wins - losses)
            )
            assert found.verdict == "underpowered"
            assert found.needed is not None
            assert found.needed > pairs


def test_evaluations_without_enough_pairs_for_a_small_difference_are_called_underpowered() -> None:
    times = 2_000
    found = verdicts([(0.55, 0.5)], 15, times=times)
    assert found["underpowered"] >= 0.9 * times
    assert found["no effect"] == 0


def test_without_pairs_nothing_is_decided() -> None:
    assert compare([]).verdict == "underpowered"
    assert compare([]).lift == 0.0


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.03, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("pairs", [20, 34, 35, 50, 65, 75])
def test_versions_that_differ_by_the_bound_are_called_equal_in_at_most_one_of_twenty(pairs: int, loss: float) -> None:
    for bound in (0.1, 0.2):
        chances = trinomial(pairs, loss + bound, loss)
        equal = math.fsum(c for won, lost, c in chances if excludes_difference(won, lost, pairs, bound))
        assert equal <= LEVEL


def test_many_equal_results_are_no_effect() -> None:
    assert compare([(True, True)] * 35).verdict == "no effect"
    assert compare([(True, True)] * 30).verdict == "underpowered"
    assert compare([(True, True)] * 10, bound=0.3).verdict == "no effect"


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.1, 0.2])
def test_with_the_pairs_that_are_said_to_decide_no_effect_and_the_bound_are_both_found(rate: float) -> None:
    """`rate` is that of wins, and of losses, if there is no effect."""
    bound, times = 0.1, 1_000
    needed = pairs_needed(max(2 * rate, bound), 0.0, bound)
    assert needed is not None
    source = random.Random(11)

    def share(wins: float, losses: float, expected: LiftVerdict) -> float:
        weights = (wins, losses, 1 - wins - losses)
        drawn = (Counter(source.choices("+-=", weights, k=needed)) for _ in range(times))
        return sum(verdict(one["+"], one["-"], needed) == expected for one in drawn) / times

    assert share(rate, rate, "no effect") >= POWER - 0.06
    above = max(2 * rate, bound)
    assert share((above + bound) / 2, (above - bound) / 2, "better") >= POWER - 0.06


@pytest.mark.parametrize(("discordance", "lift"), [(0.3, 0.2), (0.5, 0.4), (0.8, 0.3), (1.0, 1.0), (0.9, 0.6)])
def test_the_pairs_that_are_needed_for_a_difference_are_the_fewest(discordance: float, lift: float) -> None:
    needed = pairs_needed(discordance, lift, 0.1)
    assert needed is not None
    assert power_of(needed, discordance, lift) >= POWER > power_of(needed - 1, discordance, lift)


def test_more_pairs_than_anybody_runs_are_not_named() -> None:
    found = compare([(True, False), (False, True)] * 5, bound=0.005)
    assert found.verdict == "underpowered"
    assert found.needed is None
    assert pairs_needed(0.5, 0.0, 0.05) is not None
    assert MAX_PAIRS == 10_000


@pytest.mark.parametrize(("wins", "losses", "pairs"), [(1, 0, 1), (3, 0, 5), (5, 2, 20), (8, 4, 40), (2, 1, 30)])
def test_what_is_undecided_needs_more_pairs_than_it_had(wins: int, losses: int, pairs: int) -> None:
    results = [(True, False)] * wins + [(False, True)] * losses + [(True, True)] * (pairs - wins - losses)
    found = compare(results)
    assert found.verdict == "underpowered"
    assert found.needed is not None
    assert found.needed > pairs


def test_wins_without_the_skill_are_no_evidence_that_it_is_better() -> None:
    results = [(True, False)] * 8
    assert compare(results).verdict == "better"
    assert compare(results, unproven=2).verdict == "better"
    unread = compare(results, unproven=3)
    assert unread.verdict == "underpowered"
    assert unread.needed is None, "more pairs would not help"


def test_unread_wins_do_not_turn_losses_into_evidence() -> None:
    assert compare([(False, True)] * 8, unproven=0).verdict == "worse"
    assert compare([(True, False)] * 8 + [(False, True)], unproven=8).verdict == "underpowered"


def test_pass_at_k_and_pass_all_k_are_the_means_over_all_choices_of_trials() -> None:
    for trials, passed in itertools.product(range(1, 7), range(7)):
        if passed > trials:
            continue
        outcomes = [True] * passed + [False] * (trials - passed)
        for k in range(1, trials + 1):
            chosen = list(itertools.combinations(outcomes, k))
            assert pass_at(trials, passed, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
            assert pass_all(trials, passed, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


def test_estimates_of_k_trials_are_right_in_the_mean() -> None:
    source, rate, times = random.Random(5), 0.7, 20_000
    counts = [sum(source.random() < rate for _ in range(8)) for _ in range(times)]
    assert sum(pass_at(8, count, 3) for count in counts) / times == pytest.approx(1 - 0.3**3, abs=0.005)
    assert sum(pass_all(8, count, 3) for count in counts) / times == pytest.approx(0.7**3, abs=0.01)
