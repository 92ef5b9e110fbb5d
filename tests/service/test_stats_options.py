"""Options of what the server tells about itself: their forms and limits."""

import pytest

from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_option

PERCENTILE = "e2e_processing_latency_percentile"


@pytest.mark.parametrize(
    ("text", "values"), [("0.99", (0.99,)), ("1.0, 0.99,.5", (1.0, 0.99, 0.5)), ("", ()), ("1", (1.0,))]
)
def test_percentiles_are_numbers_with_commas(text: str, values: tuple[float, ...]) -> None:
    assert parse_option(PERCENTILE, text) == values


@pytest.mark.parametrize("text", ["high", "nan", "inf", "1e-3", "-0.5", "0.9;0.5", "0,99x", "."])
def test_other_texts_are_no_percentiles(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number such as"):
        parse_option(PERCENTILE, text)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({PERCENTILE: (0.0,)}, "--e2e-processing-latency-percentile is 0: it can be more than 0, up to 1"),
        ({PERCENTILE: (0.5, 99.0)}, "--e2e-processing-latency-percentile is 99: it can be more than 0, up to 1"),
        (
            {"e2e_processing_latency_window_time_ms": 1_999},
            "--e2e-processing-latency-window-time is 1999: the least",
        ),
    ],
)
def test_what_is_beyond_a_limit_is_refused_with_a_sentence(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(OptionsError, match=complaint):
        Options(**values).validate()  # type: ignore[arg-type]
