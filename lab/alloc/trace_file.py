"""Recorded traces of allocations: the compact form kept here, and the flat one for replay.c.

    trace_file.py convert RECORDED KEPT.trace.xz     (RECORDED may be - for standard input)
    trace_file.py expand KEPT.trace.xz FLAT.bin

A recorded trace has a line for every event, in the order of all threads: `THREAD m ID SIZE` or
`THREAD f ID`. Thread 0 starts and joins the others. The kept form lists each thread on its own,
so that what a program repeats is repeated in the text too, and compresses to little:

    m SIZE          the thread's next block
    f BACK          frees its own block, the BACKth before its next one
    x THREAD STEP   frees a block of another thread, STEP after the last one it freed of that thread
    s THREAD        starts a thread: as late in thread 0 as the recorded order allows
    j THREAD        joins it: after the same event of thread 0 as in the recorded order
"""

import argparse
import lzma
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

TITLE = "oboro allocation trace 1"
# Sizes and numbers of blocks are 32 bits in the flat form, and numbers of threads 16.
LIMIT = 1 << 32
THREADS = 1 << 16

# The flat form, which replay.c maps: magic and number of threads, the lengths of all lists, events.
MAGIC = b"OBTRACE1"
HEADER = struct.Struct("<8sI")
LENGTH = struct.Struct("<I")
EVENT = struct.Struct("<HHI")


class Kind(IntEnum):
    """What an event does. Numbered as in replay.c."""

    ALLOCATE = 0
    FREE = 1
    START = 2
    JOIN = 3


@dataclass
class Event:
    """One event of a thread.

    An allocation has its size and the thread that will free the block, its own if nobody does; a
    free has the block's thread and its number among the blocks of that thread.
    """

    kind: Kind
    thread: int
    value: int = 0


# The events of every thread. Thread 0 starts and joins the others.
Trace = list[list[Event]]


class TraceError(Exception):
    """The file is no trace; says where and why."""


@dataclass
class Recorded:
    """One line of a recorded trace. `size` is None for a free."""

    line: int
    thread: int
    block: int
    size: int | None


def read_recorded(lines: Iterable[str]) -> Trace:
    """The lists of all threads of a recorded trace."""
    recorded = [parse(number, line) for number, line in enumerate(lines, 1)]
    if not recorded:
        raise TraceError("the trace is empty")
    last = {event.thread: event.line for event in recorded}
    if (absent := next(t for t in range(len(last) + 1) if t not in last)) < len(last):
        raise TraceError(f"thread {absent} has no event, but thread {max(last)} has")
    trace: Trace = [[] for _ in last]
    blocks = [0] * len(trace)
    # Of the blocks that are alive: thread, number and allocation.
    alive: dict[int, tuple[int, int, Event]] = {}
    begun = {0}
    # Threads that have ended and are not joined yet.
    ended: list[int] = []
    for event in recorded:
        thread = event.thread
        if thread == 0:
            trace[0] += [Event(Kind.JOIN, other) for other in sorted(ended)]
            ended.clear()
        elif thread not in begun:
            trace[0].append(Event(Kind.START, thread))
            begun.add(thread)
        if event.size is not None:
            if event.block in alive:
                raise TraceError(f"line {event.line}: block {event.block} is allocated twice")
            made = Event(Kind.ALLOCATE, thread, event.size)
            alive[event.block] = (thread, blocks[thread], made)
            blocks[thread] += 1
            trace[thread].append(made)
        elif event.block in alive:
            owner, number, allocation = alive.pop(event.block)
            allocation.thread = thread
            trace[thread].append(Event(Kind.FREE, owner, number))
        else:
            raise TraceError(f"line {event.line}: block {event.block} is freed but not allocated")
        if thread != 0 and event.line == last[thread]:
            ended.append(thread)
    trace[0] += [Event(Kind.JOIN, other) for other in sorted(ended)]
    return trace


def parse(number: int, line: str) -> Recorded:
    def bad(why: str) -> NoReturn:
        raise TraceError(f"line {number}: {why}: {line.strip()[:60]!r}")

    fields = line.split()
    if len(fields) < 2 or fields[1] not in ("m", "f"):
        bad("neither `THREAD m ID SIZE` nor `THREAD f ID`")
    if len(fields) != (4 if fields[1] == "m" else 3):
        bad("too few or too many fields")
    numbers = [field for field in fields if field not in ("m", "f")]
    if len(numbers) != len(fields) - 1 or not all(n.isascii() and n.isdigit() for n in numbers):
        bad("not a number")
    thread, block, *size = (int(field) for field in numbers)
    if thread >= THREADS:
        bad(f"threads are numbered below {THREADS}")
    if size and size[0] >= LIMIT:
        bad("blocks are smaller than 4 GiB")
    return Recorded(number, thread, block, size[0] if size else None)


def kept_text(trace: Trace) -> str:
    """The kept form."""
    lines = [TITLE, f"threads {len(trace)}"]
    for own, events in enumerate(trace):
        lines.append(f"thread {own}")
        blocks = 0
        freed = [0] * len(trace)
        for event in events:
            if event.kind is Kind.ALLOCATE:
                lines.append(f"m {event.value}")
                blocks += 1
            elif event.kind is Kind.FREE and event.thread == own:
                lines.append(f"f {blocks - event.value}")
            elif event.kind is Kind.FREE:
                lines.append(f"x {event.thread} {event.value - freed[event.thread]}")
                freed[event.thread] = event.value
            else:
                lines.append(f"{'s' if event.kind is Kind.START else 'j'} {event.thread}")
    return "\n".join(lines) + "\n"


class KeptReader:
    """Reads the lines of a kept trace that follow the number of threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.trace: Trace = []
        self.allocations: list[list[Event]] = []
        self.freed: list[int] = []

    def take(self, line: str) -> None:
        what, *numbers = line.split()
        values = [int(value) for value in numbers]
        if what == "thread":
            if values != [len(self.trace)] or len(self.trace) == self.count:
                raise ValueError("another thread was to follow")
            self.trace.append([])
            self.allocations.append([])
            self.freed = [0] * self.count
        else:
            self.trace[-1].append(self.event(what, values))

    def event(self, what: str, values: list[int]) -> Event:
        own = len(self.trace) - 1
        made = self.allocations[own]
        if what == "m":
            (size,) = values
            if not 0 <= size < LIMIT:
                raise ValueError("no size")
            made.append(Event(Kind.ALLOCATE, own, size))
            return made[-1]
        if what == "f":
            (back,) = values
            if not 0 < back <= len(made):
                raise ValueError("no such block")
            return Event(Kind.FREE, own, len(made) - back)
        if what == "x":
            thread, step = values
            if not 0 <= thread < self.count:
                raise ValueError("no such thread")
            self.freed[thread] += step
            return Event(Kind.FREE, thread, self.freed[thread])
        if what in ("s", "j"):
            (thread,) = values
            if own != 0 or not 0 < thread < self.count:
                raise ValueError("no such thread to start or join here")
            return Event(Kind.START if what == "s" else Kind.JOIN, thread)
        raise ValueError("no such event")


def read_kept(text: str) -> Trace:
    """The lists of all threads of a kept trace."""
    lines = text.splitlines()
    if lines[:1] != [TITLE]:
        raise TraceError(f"the file does not begin with {TITLE!r}")
    threads = lines[1].split() if len(lines) > 1 else []
    if len(threads) != 2 or threads[0] != "threads" or not threads[1].isdecimal():
        raise TraceError("line 2: not the number of threads")
    if not 0 < int(threads[1]) < THREADS:
        raise TraceError(f"line 2: threads are numbered below {THREADS}")
    reader = KeptReader(int(threads[1]))
    for number, line in enumerate(lines[2:], 3):
        try:
            reader.take(line)
        except (ValueError, IndexError) as wrong:
            raise TraceError(f"line {number}: {wrong}: {line[:60]!r}") from wrong
    if len(reader.trace) != reader.count:
        raise TraceError(f"the file ends after {len(reader.trace)} of {reader.count} threads")
    check(reader.trace, reader.allocations)
    return reader.trace


def check(trace: Trace, allocations: list[list[Event]]) -> None:
    """Notes with each allocation who frees the block, and that it is freed once at most; and that
    every thread is started, and then joined, once."""
    freed: set[tuple[int, int]] = set()
    for own, events in enumerate(trace):
        for event in events:
            if event.kind is not Kind.FREE:
                continue
            name = f"block {event.value} of thread {event.thread}"
            if not 0 <= event.value < len(allocations[event.thread]):
                raise TraceError(f"{name} is freed but not allocated")
            if (event.thread, event.value) in freed:
                raise TraceError(f"{name} is freed twice")
            freed.add((event.thread, event.value))
            allocations[event.thread][event.value].thread = own
    for thread in range(1, len(trace)):
        steps = [e.kind for e in trace[0] if e.kind >= Kind.START and e.thread == thread]
        if steps != [Kind.START, Kind.JOIN]:
            raise TraceError(f"thread {thread} is not started once and then joined")


def flat(trace: Trace) -> Iterator[bytes]:
    """The flat form, in parts."""
    yield HEADER.pack(MAGIC, len(trace))
    for events in trace:
        yield LENGTH.pack(len(events))
    if len(trace) % 2 == 0:
        yield bytes(LENGTH.size)  # events begin at a multiple of 8
    for events in trace:
        for event in events:
            yield EVENT.pack(event.kind, event.thread, event.value)


def write_kept(trace: Trace, path: Path) -> None:
    path.write_bytes(lzma.compress(kept_text(trace).encode(), preset=9 | lzma.PRESET_EXTREME))


def load_kept(path: Path) -> Trace:
    try:
        text = lzma.decompress(path.read_bytes()).decode("ascii")
    except (lzma.LZMAError, UnicodeDecodeError) as wrong:
        raise TraceError(f"not a kept trace: {wrong}") from wrong
    return read_kept(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("convert", "expand"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.what == "expand":
            arguments.target.write_bytes(b"".join(flat(load_kept(arguments.source))))
        elif arguments.source == Path("-"):
            write_kept(read_recorded(sys.stdin), arguments.target)
        else:
            with arguments.source.open(encoding="ascii") as lines:
                write_kept(read_recorded(lines), arguments.target)
    except (TraceError, OSError, UnicodeDecodeError) as error:
        print(f"error: {arguments.source}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
