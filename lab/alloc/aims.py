"""The aims: each with its measurement, the worst job, and whether it is met."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

from allocators import (
    GLIBC,
    JEMALLOC,
    MIMALLOC,
    MIMALLOC_OLD,
    PLAIN,
    PLANNED,
    RESERVED,
    TCMALLOC,
)
from jobs import HELIB, REPLAY_LARGE, Job
from results import BEFOREHAND, BEFOREHAND_OURS, LEAST, Result, Results, geometric_mean

# A ratio and its job.
Ratio = tuple[float, str]
Figure = Callable[[Result], float]


def main_seconds(result: Result) -> float:
    return result.main


def judged(results: Results, peers: list[str]) -> list[dict[str, Any]]:
    """All aims in order. `peers` are those that ran, glibc included."""
    on_ciphertexts = results.jobs(lambda job: job.computes_on_ciphertexts and not job.helib)
    patterns = results.jobs(
        lambda job: not job.computes_on_ciphertexts and "walk" not in job.program
    )
    freeing = [job for job in patterns if job.program.startswith("freeing")]
    references = (BEFOREHAND, BEFOREHAND_OURS)
    aims: list[dict[str, Any] | None] = helib_aims(results, peers)
    for own in (PLAIN, PLANNED):
        aims += [
            at_most(
                f"{own}: main phase over that with all buffers allocated beforehand",
                against_best(results, on_ciphertexts, own, references, main_seconds),
                1.02,
            ),
            at_most(
                f"{own}: main phase over the best peer's (1.02 allows for noise)",
                against_best(results, on_ciphertexts, own, peers, main_seconds),
                1.02,
            ),
        ]
    large = [job for job in on_ciphertexts if "8 MiB" in job.program]
    aims += [
        at_least("glibc's main phase over ours at 8 MiB", over(results, large, GLIBC), 1.5),
        at_least(
            "jemalloc's time to free live data over ours",
            over(results, freeing, JEMALLOC),
            10.0,
        ),
        at_least(
            "jemalloc's freeing phase over ours",
            over(results, on_ciphertexts, JEMALLOC, lambda result: result.phase("freeing")),
            10.0,
        ),
        most("page faults in the steady main phase", counted(results, on_ciphertexts, "faults"), 0),
        most("memory system calls there", counted(results, on_ciphertexts, "memory_calls"), 0),
        at_most(
            "peak resident memory with a plan over the best peer's",
            against_best(results, on_ciphertexts, PLANNED, peers, lambda result: result.peak),
            1.10,
        ),
        at_most(
            "patterns over the best peer",
            against_best(results, patterns, PLAIN, peers, main_seconds),
            1.10,
        ),
        *(
            faster_on_average(
                f"patterns over {peer}, geometric mean",
                against_best(results, patterns, PLAIN, [peer], main_seconds),
            )
            for peer in peers
        ),
        no_failure(results),
    ]
    return [aim for aim in aims if aim is not None]


# Those that the first phase and the memory of HElib's job are compared with.
LEAN = (JEMALLOC, TCMALLOC, MIMALLOC_OLD, MIMALLOC)
NAMED = (GLIBC, *LEAN)


def helib_aims(results: Results, peers: list[str]) -> list[dict[str, Any] | None]:
    """Those about HElib's job, replayed and itself, by the least of its runs."""
    jobs = results.jobs(lambda job: job.helib)
    aims = []
    for unit, seconds in (("processor seconds", "cpu_seconds"), ("seconds", "seconds")):
        first, main = LEAST[f"first_{seconds}"], LEAST[f"main_{seconds}"]
        aims += [
            at_most(
                f"HElib's job: {unit} of the first phase over the best peer's",
                against_best(results, jobs, PLAIN, NAMED, first),
                1.03,
            ),
            at_most(
                f"HElib's job: {unit} of the steady phase over the best peer's",
                against_best(results, jobs, PLAIN, peers, main),
                1.0,
            ),
            *(
                at_least(
                    f"HElib's job: the best peer's {unit} of the first phase over {own}",
                    inverse(against_best(results, jobs, own, peers, first)),
                    1.2,
                )
                for own in (PLANNED, RESERVED)
            ),
        ]
    peak = against_best(results, jobs, PLAIN, LEAN, LEAST["peak_bytes"])
    return [
        *aims,
        at_most("HElib's job: peak resident memory over the leanest peer's", peak, 1.10),
        same_ranks(results),
    ]


def inverse(ratios: list[Ratio]) -> list[Ratio]:
    return [(1 / ratio, where) for ratio, where in ratios]


# Allocators that differ by less are not told apart.
APART = 1.05


def same_ranks(results: Results) -> dict[str, Any] | None:
    """Whether the replay's first phase orders the allocators as that of HElib itself does. A pair
    that HElib tells apart is swapped if the replay tells it apart the other way, and close if the
    replay does not tell it apart at all. A plan and a reserve are no other allocators."""
    figure = LEAST["first_cpu_seconds"]
    orders: dict[str, Any] = {}
    swapped: dict[str, float] = {}
    close: dict[str, float] = {}
    for job in results.jobs(lambda job: job.program == HELIB):
        replay = replace(job, program=REPLAY_LARGE)
        ran = {
            name: (figure(on_helib), figure(replayed))
            for name in dict.fromkeys(result.contestant for result in results)
            if name not in (PLANNED, RESERVED)
            and (on_helib := results.get(job, name))
            and (replayed := results.get(replay, name))
        }
        if len(ran) < 2:
            continue
        signs = []
        for one, other in combinations(sorted(ran, key=lambda name: ran[name]), 2):
            helib, again = (ran[other][i] / ran[one][i] for i in (0, 1))
            signs.append(1 if again > 1 else -1)
            if helib > APART and again < APART:
                misses = swapped if again < 1 / APART else close
                misses[f"{one} before {other}, {job.threads} threads"] = again
        orders[f"{job.threads} threads"] = {
            "helib": relative({name: seconds for name, (seconds, _) in ran.items()}),
            "replay": relative({name: seconds for name, (_, seconds) in ran.items()}),
            "kendall": sum(signs) / len(signs),
        }
    if not orders:
        return None
    return {
        "aim": "the replay's first phase orders the allocators as HElib's does",
        "bound": f"no two more than {APART - 1:.0%} apart on HElib and in the replay are swapped",
        "orders": orders,
        "close": close,
        "missed": swapped,
        "met": not swapped,
    }


def relative(seconds: dict[str, float]) -> dict[str, float]:
    """Each over the least, in order."""
    least = min(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: item[1])
    return {name: round(value / least, 3) for name, value in ordered}


def against_best(
    results: Results, jobs: list[Job], own: str, others: Iterable[str], figure: Figure
) -> list[Ratio]:
    """The ratio of our figure to the lowest peer's, for every job."""
    others = list(others)
    ratios = []
    for job in jobs:
        ours, best = results.get(job, own), results.best(job, others, figure)
        if ours and best:
            ratios.append((figure(ours) / figure(best), f"{job.name} ({best.contestant})"))
    return ratios


def over(
    results: Results, jobs: list[Job], peer: str, figure: Figure = main_seconds
) -> list[Ratio]:
    """The ratio of a peer's figure to ours, for every job."""
    pairs = [(results.get(job, peer), results.get(job, PLAIN)) for job in jobs]
    return [
        (figure(theirs) / figure(ours), ours.job.name)
        for theirs, ours in pairs
        if theirs and ours and figure(ours) > 0
    ]


def counted(results: Results, jobs: list[Job], figure: str) -> list[Ratio]:
    found = [(job, results.get(job, PLAIN)) for job in jobs]
    return [
        (float(value), job.name)
        for job, result in found
        if result and (value := getattr(result, figure)) is not None
    ]


def at_most(aim: str, ratios: list[Ratio], limit: float) -> dict[str, Any] | None:
    return verdict(aim, f"<= {limit}", ratios, max, lambda ratio: ratio <= limit)


def at_least(aim: str, ratios: list[Ratio], limit: float) -> dict[str, Any] | None:
    return verdict(aim, f">= {limit}", ratios, min, lambda ratio: ratio >= limit)


def verdict(
    aim: str,
    bound: str,
    ratios: list[Ratio],
    extreme: Callable[[list[Ratio]], Ratio],
    holds: Callable[[float], bool],
) -> dict[str, Any] | None:
    """An aim that every job must meet; None without measurements."""
    if not ratios:
        return None
    worst, where = extreme(ratios)
    return {
        "aim": aim,
        "bound": bound,
        "geometric_mean": geometric_mean([ratio for ratio, _ in ratios]),
        "worst": worst,
        "worst_where": where,
        "missed": {where: ratio for ratio, where in ratios if not holds(ratio)},
        "met": holds(worst),
    }


def most(aim: str, counts: list[Ratio], limit: int) -> dict[str, Any] | None:
    """Like `at_most`, for numbers that may be 0."""
    if not counts:
        return None
    worst, where = max(counts)
    missed = {where: count for count, where in counts if count > limit}
    return {
        "aim": aim,
        "bound": f"<= {limit}",
        "worst": worst,
        "worst_where": where,
        "missed": missed,
        "met": not missed,
    }


def no_slower_on_average(aim: str, ratios: list[Ratio]) -> dict[str, Any] | None:
    """A geometric mean of ratios to a peer of at most 1."""
    return geometric(aim, "<= 1", ratios, lambda mean: mean <= 1)


def faster_on_average(aim: str, ratios: list[Ratio]) -> dict[str, Any] | None:
    """A geometric mean of ratios to a peer below 1."""
    return geometric(aim, "< 1", ratios, lambda mean: mean < 1)


def geometric(
    aim: str, bound: str, ratios: list[Ratio], holds: Callable[[float], bool]
) -> dict[str, Any] | None:
    """An aim for the geometric mean of all jobs; None without measurements."""
    if not ratios:
        return None
    mean = geometric_mean([ratio for ratio, _ in ratios])
    return {"aim": aim, "bound": bound, "geometric_mean": mean, "met": holds(mean)}


def no_failure(results: Results) -> dict[str, Any]:
    failed = {
        f"{result.contestant}: {result.job.name}": result.outcome
        for result in results
        if not result.ok and result.contestant.startswith("fcmalloc")
    }
    return {"aim": "no crash, hang or wrong result", "missed": failed, "met": not failed}


def plan_saves(results: Results) -> list[dict[str, Any]]:
    """The start-up time and memory of a recorded plan, compared with a blanket reserve."""
    jobs = results.jobs(lambda job: job.computes_on_ciphertexts)
    pairs = [(results.get(job, PLANNED), results.get(job, RESERVED)) for job in jobs]
    return [
        {
            "program": planned.job.program,
            "threads": planned.job.threads,
            "plan": {"start_seconds": start_seconds(planned), "peak_bytes": planned.peak},
            "reserve": {"start_seconds": start_seconds(reserved), "peak_bytes": reserved.peak},
        }
        for planned, reserved in pairs
        if planned and reserved
    ]


def start_seconds(result: Result) -> float:
    return result.median(lambda run: run.start)
