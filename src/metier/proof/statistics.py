"""The statistics of paired trials: two arms of one skill, each run on the same cases.

Every pair has two results. Pairs with equal results say nothing about a difference; of the others, each is a win or a
loss. Between identical versions both are equally likely whatever the cases are, so the exact sign test holds its level
for any number of trials and any mixture of cases. Docs: `docs/explanation/evaluation.md`.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LiftVerdict: TypeAlias = Literal["better", "worse", "no effect", "underpowered"]

LEVEL = 0.05
"""The most that identical versions are called different, and versions that differ by the bound are called equal."""
POWER = 0.8
"""The share of repetitions of an evaluation in which it should come to a verdict, if there is one to come to."""
BOUND = 0.1
"""The smallest difference of pass rates that matters, unless somebody says another."""
MAX_PAIRS = 10_000
"""Where more pairs would be needed, no number is given."""
_Z_LEVEL = 1.6449  # one-sided, of LEVEL
_Z_POWER = 1.2816  # two-sided, of POWER


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """The comparison of two arms by their paired results.

    >>> compare([(True, False)] * 8 + [(True, True)] * 4).verdict
    'better'
    """

    verdict: LiftVerdict
    pairs: int
    wins: int
    """Pairs of which only the first arm passed."""
    losses: int
    p: float
    """The share of evaluations of identical versions that would differ by as much."""
    power: float
    """The probability of finding a difference of the size of the bound with so many pairs."""
    needed: int | None
    """The number of pairs that would decide it, in an evaluation anew.

    None for more than `MAX_PAIRS`, or where pairs are not what it lacks.
    """
    bound: float

    @property
    def lift(self) -> float:
        """The difference of pass rates."""
        return (self.wins - self.losses) / self.pairs if self.pairs else 0.0


def compare(results: Iterable[tuple[bool, bool]], *, unproven: int = 0, bound: float = BOUND) -> PairedComparison:
    """Compare two arms by the results of each pair; `unproven` and `bound` are those of `lift_verdict`."""
    counted = list(results)
    pairs = len(counted)
    wins = sum(first and not second for first, second in counted)
    losses = sum(second and not first for first, second in counted)
    verdict = lift_verdict(wins, losses, pairs, unproven=unproven, bound=bound)
    p = sign_test(wins, losses)
    # With a win and a loss that nobody has seen: few pairs that are all equal are no proof that all are.
    discordance = max((wins + losses + 1) / (pairs + 2), bound)
    lift = abs(wins - losses) / (pairs + 2)
    return PairedComparison(
        verdict=verdict,
        pairs=pairs,
        wins=wins,
        losses=losses,
        p=p,
        power=power_of(pairs, discordance, bound),
        needed=pairs_needed(discordance, lift, bound) if verdict == "underpowered" and p > LEVEL else None,
        bound=bound,
    )


def lift_verdict(wins: int, losses: int, pairs: int, *, unproven: int = 0, bound: float = BOUND) -> LiftVerdict:
    """The verdict on an arm that passed alone in `wins` of the pairs, and failed alone in `losses`.

    It is *better* or *worse* by the exact sign test, for which `unproven` of the wins are no evidence that it is better
    and no evidence against it; it has *no effect* where a difference as large as the bound is excluded in both
    directions; else there were too few pairs.
    """
    if losses > wins and sign_test(wins, losses) <= LEVEL:
        return "worse"
    proven = wins - unproven
    if proven > losses and sign_test(proven, losses) <= LEVEL:
        return "better"
    return "no effect" if excludes_difference(wins, losses, pairs, bound) else "underpowered"


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of the exact sign test, which is that of McNemar's test.

    >>> sign_test(6, 0), sign_test(3, 3)
    (0.03125, 1.0)
    """
    trials = wins + losses
    tail = sum(math.comb(trials, count) for count in range(min(wins, losses) + 1))
    return min(1.0, float(2 * tail / 2**trials))


def excludes_difference(wins: float, losses: float, pairs: float, bound: float) -> bool:
    """Whether the paired results exclude a difference of pass rates of the bound, in both directions.

    Two one-sided score tests for paired proportions (Tango 1998), with a correction for continuity.
    """
    return min(_score(wins, losses, pairs, bound), _score(losses, wins, pairs, bound)) >= _Z_LEVEL


def _score(wins: float, losses: float, pairs: float, bound: float) -> float:
    """The distance, in standard errors, of the observed difference below one of the size of the bound."""
    if not pairs:
        return 0.0
    linear = (2 * pairs - wins + losses) * bound - wins - losses
    constant = -losses * bound * (1 - bound)
    # The likeliest rate of losses, if wins exceed them by exactly the bound.
    rate = (math.sqrt(linear * linear - 8 * pairs * constant) - linear) / (4 * pairs)
    return (pairs * bound - wins + losses - 0.5) / math.sqrt(pairs * (2 * rate + bound * (1 - bound)))


def power_of(pairs: int, discordance: float, difference: float) -> float:
    """The probability that the sign test finds a difference, by the share of pairs that differ at all.

    >>> round(power_of(20, 0.5, 0.5), 3)
    0.979
    """
    share = (1 + difference / discordance) / 2
    differ = min(discordance, 1.0)
    rejected = enumerate(itertools.islice(_rejections(share), pairs + 1))
    return max(0.0, math.fsum(_mass(pairs, count, differ) * reject for count, reject in rejected))


def _rejections(share: float) -> Iterator[float]:
    """The power of the sign test with 0, 1, 2 ... pairs that differ, of which a share are wins."""
    share = min(share, 1.0)
    critical = 1  # wins from which on it rejects
    fair, upper, lower = 0.0, 0.0, 0.0  # P(wins >= critical) if fair, and by the share, for both sides
    count = 0
    while True:
        # One more reaches `critical` if it is a win after `critical - 1`.
        yield upper + lower
        fair += 0.5 * _mass(count, critical - 1, 0.5)
        upper += share * _mass(count, critical - 1, share)
        lower += (1 - share) * _mass(count, critical - 1, 1 - share)
        count += 1
        while 2 * fair > LEVEL:
            fair -= _mass(count, critical, 0.5)
            upper -= _mass(count, critical, share)
            lower -= _mass(count, critical, 1 - share)
            critical += 1


def _mass(trials: int, count: int, share: float) -> float:
    """The probability of so many successes."""
    if count > trials or share in (0.0, 1.0):
        return float(count == trials * share)
    log = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(log + count * math.log(share) + (trials - count) * math.log1p(-share))


def pairs_needed(discordance: float, lift: float, bound: float) -> int | None:
    """The number of pairs that decides with a probability of `POWER`; None for more than `MAX_PAIRS`.

    If the lift is larger than the bound, it decides that there is a difference of that size. If not, it decides either
    way: a difference of the bound is found, and so is none.
    """
    discordance = max(discordance, lift, bound)
    if lift > bound:
        return _first(lambda pairs: power_of(pairs, discordance, lift) >= POWER)
    found = _first(lambda pairs: power_of(pairs, discordance, bound) >= POWER)
    equal = _first(lambda pairs: _power_of_no_effect(pairs, discordance, bound))
    return None if found is None or equal is None else max(found, equal)


def _power_of_no_effect(pairs: int, discordance: float, bound: float) -> bool:
    """Whether no effect is seen often enough if there is none: in the most uneven of the usual results."""
    uneven = min(_Z_POWER * math.sqrt(pairs * discordance), pairs * discordance)
    differ = pairs * discordance
    return excludes_difference((differ + uneven) / 2, (differ - uneven) / 2, pairs, bound)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The first number from which on something holds that grows with it."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, high * 2
        if high > MAX_PAIRS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def pass_at(trials: int, passed: int, k: int) -> float:
    """The probability that of k trials at least one passes (pass@k), estimated without bias.

    >>> pass_at(4, 1, 1), pass_at(4, 1, 2)
    (0.25, 0.5)
    """
    return 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_all(trials: int, passed: int, k: int) -> float:
    """The probability that k trials all pass (pass^k), estimated without bias.

    >>> pass_all(4, 3, 1), pass_all(4, 3, 2)
    (0.75, 0.5)
    """
    return math.comb(passed, k) / math.comb(trials, k)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of values; None where one of them is not known, or there is none."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None
