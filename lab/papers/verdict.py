"""How a claim of a paper is judged, and what that makes of an item.

A claim is a ratio p that the paper reports, and the same ratio r here. It is *reproduced* if r lies
between √p and p^1.5, from half of the effect to one and a half times it on a logarithmic scale; of
the *same direction* if r lies on the same side of 1, but outside; else *contradicted*. What differs
by less than a factor of 1.1 is no effect: an r like that contradicts a larger p, and reproduces
p = 1, where the paper finds no difference. A smaller p than that is judged only where runs were
repeated and all of them lie on one side of 1. A claim with a bound or an exact value that the
paper states is reproduced or contradicted. Where the paper has words and no figure, a bound of ours
stands for them: what meets it *holds by a bound of ours*, which is less. What has several claims
has their worst verdict. What has none, and what the papers left for later, cannot be reproduced: it
is *built and tested* if its test exists, since tests pass in `.ci/run`. *Needs hardware*,
*deliberately different* and, of the papers' machines and parameters, *described* are said by hand.
"""

from __future__ import annotations

from enum import Enum
from math import log

NO_DIFFERENCE = 1.1


class Verdict(Enum):
    """From the best to the worst, then those that are said by hand, then none."""

    REPRODUCED = "reproduced"
    HOLDS = "holds by a bound of ours"
    BUILT = "built and tested"
    DIRECTION = "same direction"
    CONTRADICTED = "contradicted"
    HARDWARE = "needs hardware"
    DESCRIBED = "described"
    DIFFERENT = "deliberately different"
    OPEN = "not measured in this run"


JUDGED = (Verdict.REPRODUCED, Verdict.HOLDS, Verdict.DIRECTION, Verdict.CONTRADICTED)


def of_ratio(paper: float, here: float, runs: tuple[float, float] | None = None) -> Verdict:
    """`runs` are the least and the largest ratio of repeated runs, where there are enough."""
    if here <= 0:
        return Verdict.CONTRADICTED
    absent = abs(log(here)) < log(NO_DIFFERENCE)
    if paper == 1:
        return of_fact(absent)
    if abs(log(paper)) < log(NO_DIFFERENCE):
        if runs is None or runs[0] <= 1 <= runs[1]:
            return Verdict.OPEN
    elif absent:
        return Verdict.CONTRADICTED
    strength = log(here) / log(paper)
    if 0.5 <= strength <= 1.5:
        return Verdict.REPRODUCED
    return Verdict.DIRECTION if strength > 0 else Verdict.CONTRADICTED


def band(paper: float) -> tuple[float, float]:
    """The ratios here that reproduce the paper's."""
    if paper == 1:
        return 1 / NO_DIFFERENCE, NO_DIFFERENCE
    low, high = sorted((paper**0.5, paper**1.5))
    if paper >= NO_DIFFERENCE:
        low = max(low, NO_DIFFERENCE)
    elif paper <= 1 / NO_DIFFERENCE:
        high = min(high, 1 / NO_DIFFERENCE)
    return low, high


def of_fact(holds: bool, ours: bool = False) -> Verdict:
    """`ours` says that the paper does not state what must hold."""
    if not holds:
        return Verdict.CONTRADICTED
    return Verdict.HOLDS if ours else Verdict.REPRODUCED


def worst(verdicts: list[Verdict]) -> Verdict:
    """Of claims; those that this run did not measure do not count beside others."""
    known = [verdict for verdict in verdicts if verdict is not Verdict.OPEN]
    return max(known, key=JUDGED.index) if known else Verdict.OPEN
