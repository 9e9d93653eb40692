"""Counting on several machines with Ray.

`serve` is `oboro serve` with one difference: queries are counted by workers on the nodes of a Ray
cluster, which read the server's storage and see nothing but ciphertext. Owners notice nothing of
it: they speak to the server as ever, and never join the cluster.

    $ ray start --head
    $ python -m oboro.ray auto --data /shared/store
"""

from __future__ import annotations

from oboro.ray._serve import serve

__all__ = ["serve"]
