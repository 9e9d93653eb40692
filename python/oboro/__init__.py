"""Mining and genome search over encrypted data.

>>> import oboro
>>> keys = oboro.Keys.generate()
"""

from __future__ import annotations

from oboro import errors
from oboro._encrypt import Encrypted, encrypt
from oboro._oboro import Interrupt, Keys, __version__

__all__ = [
    "Encrypted",
    "Interrupt",
    "Keys",
    "__version__",
    "encrypt",
    "errors",
]
