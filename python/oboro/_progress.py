"""Progress bars for long-running calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # Without ipywidgets a notebook shows no bars, which is harmless.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

Progress = Callable[[int, int], None]


@contextmanager
def bar(description: str, unit: str, wanted: bool | None) -> Iterator[Progress]:
    """Show a bar while the block runs.

    Args:
        description: the label.
        unit: the unit, such as ``"B"``.
        wanted: show it; ``None`` for a terminal or a notebook only.

    Yields:
        A function to call with the amount done and the total.
    """
    disable = None if wanted is None else not wanted
    with tqdm(desc=description, unit=unit, unit_scale=unit == "B", disable=disable) as shown:

        def tell(done: int, total: int) -> None:
            shown.total = total or None
            shown.update(done - shown.n)

        yield tell
