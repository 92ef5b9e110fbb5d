"""Times of pages and forms: written in UTC, read in UTC or with the zone that they name."""

from datetime import UTC, datetime

import pytest

from admin_console.vocabulary.times import column_time, field_time, time_of


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("2026-03-01T14:30", "2026-03-01T14:30"),
        ("2026-03-01 14:30", "2026-03-01T14:30"),
        ("2026-03-01T14:30Z", "2026-03-01T14:30"),
        ("2026-03-01T14:30:05Z", "2026-03-01T14:30:05"),
        ("2026-03-01T02:30+05:45", "2026-02-28T20:45"),
    ],
)
def test_a_time_is_utc_or_of_the_zone_that_it_names_and_a_field_has_it_in_utc(text: str, field: str) -> None:
    assert field_time(text) == field
    assert time_of(text) == datetime.fromisoformat(field).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "2026-02-30T10:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"]
)
def test_what_is_no_time_is_refused_with_a_sentence_and_leaves_a_field_empty(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time such as 2026-03-01T14:30 \(UTC\)\."):
        time_of(text)
    assert field_time(text) == ""


def test_a_column_has_the_moment_for_scripts_and_words_for_people() -> None:
    html = '<time datetime="2026-03-01T14:30:00Z" data-column>2026-03-01 14:30:00</time>'
    assert column_time(1_772_375_400_000) == html
    assert {column_time(at_ms) for at_ms in (None, 1 << 62)} == {"–"}
