"""Mining and genome search over encrypted data.

>>> import oboro
>>> keys = oboro.Keys.generate()
"""

from __future__ import annotations

from oboro import errors
from oboro._oboro import Interrupt, Keys, __version__
from oboro.frequent_patterns import apriori, association_rules

__all__ = [
    "Interrupt",
    "Keys",
    "__version__",
    "apriori",
    "association_rules",
    "errors",
]
