"""Counting on several machines with Ray.

`serve` is `oboro serve` with one difference: workers on the nodes of a Ray cluster count. They read
the server's storage and see nothing but ciphertext. Owners use the server as usual, and never join
the cluster.

    $ ray start --head
    $ python -m oboro.ray auto --data /shared/store
"""

from __future__ import annotations

from oboro.ray._serve import serve

__all__ = ["serve"]
