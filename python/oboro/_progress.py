"""The progress bar of long calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm


@contextmanager
def bar(
    description: str, unit: str, wanted: bool | None
) -> Iterator[Callable[[int, int], None] | None]:
    """A bar while it lasts, as the function `told(done, total)` that moves it.

    `wanted`: whether to show it; None shows it on terminals and in notebooks.
    """
    if wanted is False:
        yield None
        return
    with tqdm(desc=description, unit=unit, disable=None if wanted is None else False) as shown:

        def told(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield told
