"""The sentence that the page shows for an error."""

import pytest

from queue_engine.lake.job.error_sentences import SENTENCE_LENGTH_MAX, sentence_of
from queue_engine.vocabulary.errors import OffsetGoneError, PipelineError

# Errors as Spark 4 words them. Their classes are made here: processes that read sentences have no Spark.
Py4JJavaError = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
StreamingQueryException = type("StreamingQueryException", (Exception,), {"__module__": "pyspark.errors.exceptions.x"})

STAGE_FAILED = (
    "An error occurred while calling o72.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 3.0 (TID 4) (localhost executor driver): java.lang.IllegalStateException: "
    "the file ends early\n\tat org.apache.spark.X.y(X.scala:1)"
)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OffsetGoneError("offset 7 of orders is gone"), "offset 7 of orders is gone."),
        (PipelineError("It is gone.\nmore of it"), "It is gone."),
        (PipelineError(""), "PipelineError."),
        (OSError(28, "No space left on device"), "There is no space left on the disk."),
        (PermissionError(13, "Permission denied", "/lake/x"), "The system refused: Permission denied: /lake/x."),
        (
            RuntimeError(
                "[STREAM_FAILED] Query [id = 1] terminated\n  File x\n"
                "queue_engine.vocabulary.errors.OffsetGoneError: offset 7 of orders is gone\n\n\tat org.apache.spark.X"
            ),
            "offset 7 of orders is gone.",
        ),
        (
            StreamingQueryException("Python worker failed to connect back.\n=== Streaming Query ==="),
            "A Python process of Spark did not start within ten seconds: the machine was too busy.",
        ),
        (
            StreamingQueryException(
                "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: the batch is odd SQLSTATE: XXKST"
            ),
            "Spark failed: the batch is odd.",
        ),
        (
            StreamingQueryException(
                "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
                "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch "
                "sink. Reason: An exception was raised by the Python Proxy. Return Message: "
                "Traceback (most recent call last):\n"
                '  File "<string>", line 644, in _call_proxy\n'
                "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
                "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
                "duckdb.ConversionException: the window [3, 4) is odd\n SQLSTATE: 39000 SQLSTATE: XXKST\n"
                "=== Streaming Query ===\nCurrent State: ACTIVE\n"
            ),
            "An unexpected error, ConversionException: the window [3, 4) is odd.",
        ),
        (Py4JJavaError(STAGE_FAILED), "Spark failed: the file ends early."),
        (
            Py4JJavaError(f"{STAGE_FAILED}\nCaused by: java.io.IOException: No space left on device"),
            "There is no space left on the disk.",
        ),
        (
            Py4JJavaError(f"{STAGE_FAILED}\nCaused by: java.io.EOFException: 7 bytes are missing"),
            "Spark failed: 7 bytes are missing.",
        ),
        (Py4JJavaError(""), "Spark failed: Py4JJavaError."),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark"), "There is no module pyspark."),
        (ValueError("7 is odd"), "An unexpected error, ValueError: 7 is odd."),
        (ValueError(), "An unexpected error, ValueError."),
    ],
)
def test_the_sentence_of_an_error_is_its_own(error: Exception, sentence: str) -> None:
    assert sentence_of(error) == sentence


def test_it_is_short() -> None:
    assert len(sentence_of(ValueError("x" * 1000))) == SENTENCE_LENGTH_MAX
