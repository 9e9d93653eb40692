"""Every shard is dealt once, whoever takes how much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oboro.ray._dealing import Shares


@given(
    st.integers(1, 200),
    st.sets(st.sampled_from("abcde"), min_size=1),
    st.integers(1, 40),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=50),
)
def test_each_shard_is_dealt_until_it_is_counted(
    shards: int, nodes: set[str], most: int, steps: list[tuple[str, bool]]
) -> None:
    shares = Shares(shards, nodes, most)
    counted: list[int] = []
    for node, dies in steps:
        taken = shares.take(node)
        assert taken is None or 0 < len(taken) <= most
        if taken and dies:
            shares.give_back(node, taken)
        else:
            counted.extend(taken or [])
    assert len(shares) == shards - len(counted)
    while taken := shares.take("a"):
        counted.extend(taken)
    assert sorted(counted) == list(range(shards))


def test_nodes_begin_with_their_own_and_end_with_single_groups() -> None:
    shares = Shares(100, ["b", "a"], 1000)
    first = {node: shares.take(node) for node in "ab"}
    assert first == {"a": range(0, 12), "b": range(50, 62)}
    sizes = [12]
    while taken := shares.take("a"):
        sizes.append(len(taken))
    assert sizes[-4:] == [1, 1, 1, 1]


def test_the_same_nodes_have_the_same_groups_in_every_query() -> None:
    def owned(node: str) -> set[int]:
        shares = Shares(40, ["a", "b", "c"], 3)
        taken = [shares.take(node) for _ in range(4)]
        return {group for shards in taken if shards for group in shards}

    assert owned("b") == owned("b")
    assert not owned("a") & owned("b")
