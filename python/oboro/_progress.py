"""Progress bars, the same for everything that takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

Progress = Callable[[int, int], None]


@contextmanager
def bar(description: str, unit: str, wanted: bool | None) -> Iterator[Progress]:
    """Shows a bar while the block runs.

    Args:
        description: what is being done.
        unit: what is counted, such as ``"B"``.
        wanted: whether to show it; ``None`` for a terminal or a notebook only.

    Yields:
        What is to be called with what is done so far, and the total.
    """
    disable = None if wanted is None else not wanted
    with tqdm(desc=description, unit=unit, unit_scale=unit == "B", disable=disable) as shown:

        def tell(done: int, total: int) -> None:
            shown.total = total or None
            shown.update(done - shown.n)

        yield tell
