"""Mining and genome search over encrypted data.

>>> import oboro
>>> keys = oboro.Keys.generate()
"""

from __future__ import annotations

from oboro import errors
from oboro._oboro import Interrupt, Keys, __version__

__all__ = [
    "Interrupt",
    "Keys",
    "__version__",
    "errors",
]
