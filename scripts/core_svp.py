"""Core-SVP hardness of the rings that Oboro encrypts with (docs/cryptography.md, "Core-SVP").

The primal attack on ring-LWE with uniform ternary secrets and centred binomial errors, which is
taken for LWE in dimension N: the secret and the errors are a short vector of the lattice of Bai and
Galbraith, and BKZ with block size beta finds it once (Alkim, Ducas, Poeppelmann and Schwabe,
"Post-quantum key exchange: a new hope", USENIX Security 2016, section 6.3)

    sigma * sqrt(beta) <= delta^(2 beta - d - 1) * Vol^(1/d),
    d = m + N + 1,    Vol = q^m * (sigma / sigma_s)^N.

The secret's part is scaled by sigma / sigma_s, which makes all coordinates equally long. The number
of samples m is the one that needs the smallest beta, up to 4 N, since blocks share a secret. What
is counted is one call of the shortest-vector oracle in dimension beta, 2^(0.292 beta) operations.

usage: core_svp.py [LOG2_N LOG2_Q]...
"""

import json
import sys
from math import e, log2, pi, sqrt

# Of a centred binomial error of 42 coins, and of a secret coefficient: -1, 0 or 1, equally likely.
ERROR_VARIANCE = 10.5
SECRET_VARIANCE = 2 / 3
# Bits for each dimension of a block: classical sieving (Becker, Ducas, Gama and Laarhoven 2016).
CLASSICAL = 0.292

# log2 N and log2 Q: what the server needs to count itemsets of up to 2, 3, 4 and 7 items, and the
# most limbs of 28 bits at larger degrees.
RINGS = [(12, 56), (12, 84), (12, 109), (13, 196), (14, 420), (15, 868)]

# The formula for delta holds from some fifty on.
LEAST_BLOCK = 60


def log2_delta(beta: int) -> float:
    """The root Hermite factor of BKZ with block size beta (Chen 2013)."""
    return log2((pi * beta) ** (1 / beta) * beta / (2 * pi * e)) / (2 * (beta - 1))


def log2_gap(beta: int, samples: int, degree: int, log2_q: float) -> float:
    """By how many bits BKZ has the short vector's projection found; negative if it has not."""
    dimension = samples + degree + 1
    scale = log2(sqrt(ERROR_VARIANCE / SECRET_VARIANCE))
    volume = (samples * log2_q + degree * scale) / dimension
    found = log2_delta(beta) * (2 * beta - dimension - 1) + volume
    return found - log2(sqrt(ERROR_VARIANCE * beta))


def best_samples(beta: int, degree: int, log2_q: float) -> int:
    """The number of samples with the largest gap, which rises with the dimension, then falls."""
    low, high = 1, 4 * degree
    while low < high:
        middle = (low + high) // 2
        here, next_one = (log2_gap(beta, m, degree, log2_q) for m in (middle, middle + 1))
        low, high = (middle + 1, high) if next_one > here else (low, middle)
    return low


def core_svp(log2_degree: int, log2_q: float) -> dict[str, float]:
    """The cheapest primal attack on one secret."""
    degree = 2**log2_degree
    # A larger block never hurts: bisect for the smallest that suffices.
    low, high = LEAST_BLOCK, 4 * degree
    while low < high:
        beta = (low + high) // 2
        suffices = log2_gap(beta, best_samples(beta, degree, log2_q), degree, log2_q) >= 0
        low, high = (low, beta) if suffices else (beta + 1, high)
    return {
        "log2_n": log2_degree,
        "log2_q": log2_q,
        "samples": best_samples(low, degree, log2_q),
        "block": low,
        "core_svp_bits": round(CLASSICAL * low, 1),
    }


def main(arguments: list[str]) -> None:
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    for log2_degree, log2_q in [(int(n), float(q)) for n, q in pairs] or RINGS:
        print(json.dumps(core_svp(log2_degree, log2_q)))


if __name__ == "__main__":
    main(sys.argv[1:])
