"""Mining and genome search over encrypted data.

>>> import oboro
>>> keys = oboro.Keys.generate()
"""

from __future__ import annotations

from oboro import errors
from oboro._encrypt import Encrypted, encrypt
from oboro._oboro import Interrupt, Keys, __version__
from oboro._server import Dataset, DatasetInfo, LocalServer, Server, connect, local
from oboro.frequent_patterns import apriori, association_rules, fpgrowth, fpmax

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Encrypted",
    "Interrupt",
    "Keys",
    "LocalServer",
    "Server",
    "__version__",
    "apriori",
    "association_rules",
    "connect",
    "encrypt",
    "errors",
    "fpgrowth",
    "fpmax",
    "local",
]
