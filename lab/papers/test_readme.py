"""README.md says what the reference run measured."""

from __future__ import annotations

import pytest

from papers import readme
from papers.__main__ import REFERENCE
from papers.expression import Expression
from papers.readme import Figure, Numbers, Phrase, rounded
from papers.results import Results

TEXT = "# T\n\n## Measured\n\nOn 2 cores it takes 0.5 s,\n3.1 times less.\n\n## Other\n\n7\n"


def results(value: float | None) -> Results:
    reference = Results.read(REFERENCE / "results.json")
    reference.steps["numa"].runs = [[{"s": value}]] if value is not None else []
    return reference


def numbers(*given: str) -> Numbers:
    takes = Phrase("takes {} s", (Figure(Expression.parse("numa.s"), 1),))
    times = Phrase("s, {} times less", (Figure(Expression.parse("numa.s * 6.2")),))
    return Numbers([takes, times], list(given))


def test_every_number_of_the_readme_is_measured() -> None:
    reference = Results.read(REFERENCE / "results.json")
    wrong = readme.problems(readme.README.read_text(), readme.load(), reference)
    assert not wrong, "\n".join(wrong)


def test_numbers_that_agree_pass() -> None:
    assert readme.problems(TEXT, numbers("On 2 cores"), results(0.504)) == []


@pytest.mark.parametrize(
    ("text", "given", "value", "cause"),
    [
        (TEXT, "On 2 cores", 0.6, "it says 0.5, results.json 0.6"),
        (TEXT, "nothing", 0.5, "2 in 'On 2 cores it takes 0.5 s,' belongs to no phrase"),
        (TEXT, "On 2 cores", None, "results.json has no numa.s"),
        (TEXT.replace("On 2", "**T, of an earlier run** On 2"), "On 2 cores", 0.5, "has all its"),
        (TEXT.replace("takes", "needs"), "On 2 cores", 0.5, "'takes {} s' occurs 0 times"),
        (TEXT.replace("0.5 s", "0.5 s takes 0.5 s"), "On 2 cores", 0.5, "occurs 2 times"),
    ],
)
def test_numbers_that_do_not_are_named(
    text: str, given: str, value: float | None, cause: str
) -> None:
    assert any(cause in wrong for wrong in readme.problems(text, numbers(given), results(value)))


def test_a_part_has_numbers_of_one_run() -> None:
    """What the run lacks a figure of keeps all its numbers, and says so, until it is measured."""
    phrases = numbers("On 2 cores")
    titled = TEXT.replace("On 2", "**T**: On 2")
    with pytest.raises(readme.Missing, match=r"has no numa\.s"):
        readme.updated(TEXT, phrases, results(None))
    kept = readme.updated(titled, phrases, results(None))
    assert kept == titled.replace("**T**", "**T, of an earlier run**")
    assert readme.problems(kept, phrases, results(None)) == []
    new = readme.updated(kept, phrases, results(1.0))
    assert new == titled.replace("0.5 s", "1 s").replace("3.1", "6.2")
    assert readme.problems(new, phrases, results(1.0)) == []


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.01749, 2, "0.017"),
        (209.6, 2, "210"),
        (15.48, 3, "15.5"),
        (324972.0, 6, "324,972"),
        (2142.0, 4, "2,142"),
        (0.5, 1, "0.5"),
        (9.96, 2, "10"),
        (0, 2, "0"),
        (147.0, 5, "147"),
    ],
)
def test_rounding(value: float, digits: int, text: str) -> None:
    assert rounded(value, digits) == text
