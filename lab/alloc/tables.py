"""The Markdown of a run: HElib's job, Table 6 of the paper for every program, then threads,
patterns, walks."""

from collections.abc import Callable

from allocators import Allocator
from jobs import Job
from results import BEFOREHAND, BEFOREHAND_OURS, LEAST, Result, Results, steady_phases

PHASES = {
    "modulus_switch": "main: modulus switch (s)",
    "product": "main: product (s)",
    "add": "main: addition (s)",
    "freeing": "main: freeing (s)",
}


def markdown(results: Results, allocators: list[Allocator], cpus: int) -> str:
    names = [allocator.name for allocator in allocators]
    on_ciphertexts = results.jobs(lambda job: job.computes_on_ciphertexts)
    others = results.jobs(lambda job: not job.computes_on_ciphertexts)
    contestants = [*names, BEFOREHAND, BEFOREHAND_OURS]
    versions = {allocator.name: allocator.version for allocator in allocators}
    parts = [helib_table(results, job, names) for job in on_ciphertexts if job.helib]
    parts += [table6(results, job, contestants, versions, cpus) for job in detailed(on_ciphertexts)]
    parts.append(seconds_table("Steady main phase (s)", results, on_ciphertexts, contestants))
    parts.append(seconds_table("Patterns (s)", results, others, [*names, *PLACES]))
    return "\n\n".join(parts) + "\n"


# The references of the walks: placed by the program itself.
PLACES = ("same offset", "a line apart")


def detailed(jobs: list[Job]) -> list[Job]:
    """Those with the phases in full: as many threads as a small machine has cores, and most."""
    most = max((job.threads for job in jobs), default=0)
    return [job for job in jobs if job.threads in (2, most) and not job.helib]


# The figures of HElib's job, and how they are written.
HELIB_FIGURES = {
    "first_cpu_seconds": ("first: processor seconds", "{:.3f}", 1),
    "first_seconds": ("first (s)", "{:.3f}", 1),
    "first_faults": ("first: page faults", "{:.0f}", 1),
    "main_cpu_seconds": ("main: processor seconds", "{:.3f}", 1),
    "main_seconds": ("main (s)", "{:.3f}", 1),
    "ending_seconds": ("ending of all rounds (s)", "{:.3f}", 1),
    "peak_bytes": ("peak memory (MiB)", "{:.0f}", 1 << 20),
}


def helib_table(results: Results, job: Job, contestants: list[str]) -> str:
    """The least of all runs, for every allocator."""
    columns = [result for name in contestants if (result := results.get(job, name))]
    lines = [
        row([job.name, *(result.contestant for result in columns)]),
        row(["--", *("--:" for _ in columns)]),
    ]
    for figure, (title, form, unit) in HELIB_FIGURES.items():
        lines.append(row([title, *(form.format(LEAST[figure](r) / unit) for r in columns)]))
    return "\n".join(lines)


def table6(
    results: Results, job: Job, contestants: list[str], versions: dict[str, str], cpus: int
) -> str:
    columns = [result for name in contestants if (result := results.get(job, name))]
    if not columns:
        return f"**{job.name}**: no allocator ran it to the end."
    figures: list[tuple[str, Callable[[Result], str]]] = [
        ("version", lambda r: versions.get(r.contestant, "")),
        ("start (s)", lambda r: f"{r.median(lambda run: run.start):.3f}"),
        ("initial (s)", lambda r: f"{r.phase('initial'):.3f}"),
        ("first round (s)", lambda r: f"{r.phase('first'):.3f}"),
        *(
            (PHASES[phase], lambda r, phase=phase: f"{r.phase(phase):.4f}")
            for phase in steady_phases(columns[0])
        ),
        ("main: total (s)", lambda r: f"{r.main:.4f}"),
        ("main: user, system CPU (%)", lambda r: shares(r, cpus)),
        ("main: page faults", lambda r: f"{r.faults:.0f}"),
        ("main: memory system calls", lambda r: calls(r)),
        ("terminal (s)", lambda r: f"{r.phase('terminal'):.4f}"),
        ("peak memory (MiB)", lambda r: f"{r.peak / (1 << 20):.0f}"),
    ]
    header = row([job.name, *(result.contestant for result in columns)])
    rule = row(["--", *("--:" for _ in columns)])
    body = [row([title, *(figure(r) for r in columns)]) for title, figure in figures]
    return "\n".join([header, rule, *body])


def shares(result: Result, cpus: int) -> str:
    return f"{100 * result.share('user', cpus):.0f}, {100 * result.share('system', cpus):.0f}"


def calls(result: Result) -> str:
    return "" if result.memory_calls is None else str(result.memory_calls)


def seconds_table(title: str, results: Results, jobs: list[Job], contestants: list[str]) -> str:
    """Main seconds, a row for each job, the best peer's or our own in bold where it is least."""
    shown = [n for n in contestants if any(results.get(job, n) for job in jobs)]
    failed = {(r.job.name, r.contestant): r.outcome.split(":")[0] for r in results if not r.ok}
    lines = [row([title, *shown]), row(["--", *("--:" for _ in shown)])]
    for job in jobs:
        found = {name: results.get(job, name) for name in shown}
        times = {name: result.main for name, result in found.items() if result}
        least = min(times.values(), default=0.0)
        cells = [cell(times.get(name), least, failed.get((job.name, name), "")) for name in shown]
        lines.append(row([job.name, *cells]))
    return "\n".join(lines)


def cell(seconds: float | None, least: float, failure: str) -> str:
    if seconds is None:
        return failure
    text = f"{seconds:.3g}" if seconds < 0.001 else f"{seconds:.4f}"
    return f"**{text}**" if seconds == least else text


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
