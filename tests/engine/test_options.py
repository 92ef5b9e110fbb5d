"""A number that no option can take is refused in a sentence that says why."""

import pytest

from queue_engine.vocabulary.options.parsing import parse_option

MOST = (1 << 63) - 1


@pytest.mark.parametrize("text", ["0", "-1", "10737418240", str(MOST), f"{'0' * 10}7"])
def test_a_whole_number_of_64_bits_is_taken(text: str) -> None:
    assert parse_option("trash_max_bytes", text) == int(text)


@pytest.mark.parametrize("text", [str(MOST + 1), "99999999999999999999", "9" * 5000, f"-{MOST + 1}"])
def test_a_number_beyond_64_bits_is_refused_with_the_limit(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{text[:40]} is beyond -?{MOST}, the most any option takes$"):
        parse_option("trash_max_bytes", text)


@pytest.mark.parametrize("text", ["", "ten", "1_0", "1.5", "٣", " 1", "1\n"])
def test_what_is_no_whole_number_is_refused_as_that(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a whole number$"):
        parse_option("trash_max_bytes", text)
