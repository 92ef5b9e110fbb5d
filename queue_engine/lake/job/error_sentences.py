"""Makes one sentence of a job's error, without Java's and Spark's wrapping."""

import re

from queue_engine.vocabulary.errors import PenstockError

SENTENCE_LENGTH_MAX = 500
# Spark's text about an error that was raised in one of its Python processes ends with the error itself.
_OWN_ERROR = re.compile(rf"{re.escape(PenstockError.__module__)}\.\w+: (.+)")
# Errors of the machine: a pattern of Java's or Spark's text, and our sentence. The first pattern that matches is taken.
_SENTENCES = (
    (
        re.compile(r"No space left on device"),
        "There is no space left on the disk.",
    ),
    (
        re.compile(r"OutOfMemoryError|Java heap space"),
        "Java had no memory left for it.",
    ),
    (
        re.compile(r"Python worker failed to connect back"),
        "A Python process of Spark did not start within ten seconds: the machine was too busy.",
    ),
    (
        re.compile(r"Python worker exited unexpectedly"),
        "A Python process of Spark was ended from outside, as a machine does that has no memory left.",
    ),
    (
        re.compile(r"Answer from Java side is empty|Py4JNetworkError|Error while sending or receiving"),
        "The Java process of Spark is gone.",
    ),
)
_WRAPPING = (
    re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: "),
    re.compile(r"^(?:[a-z][\w$]*\.)+[\w$.]+: "),  # the class of an error of Java's
    re.compile(r"^Job aborted due to stage failure: Task .*? most recent failure: Lost task .*?\): "),
    re.compile(r"^(?:[a-z][\w$]*\.)+[\w$.]+: "),
)
# A traceback of Python's in the midst of Spark's text: its last line, which no space begins, is the error.
_TRACEBACK = re.compile(
    r"^.*Traceback \(most recent call last\):\n(?:[ \t].*\n)+((?:\w+\.)*\w+)(?:: (.*))?$", re.MULTILINE
)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+$")
_CALLING = "An error occurred while calling "
_CAUSED_BY = "Caused by: "


def is_any_of(error: BaseException, kinds: tuple[type[PenstockError], ...]) -> bool:
    """Whether an error is of one of these classes, or is Spark's about one of them that a task has raised."""
    if isinstance(error, PenstockError):
        return isinstance(error, kinds)
    return any(f"{kind.__module__}.{kind.__name__}: " in str(error) for kind in kinds)


def sentence_of(error: BaseException) -> str:
    """The sentence that the page shows for an error. The worker's log has the traceback of errors that are not ours."""
    text = str(error).strip()
    if isinstance(error, PenstockError):
        return _ended(text.splitlines()[0] if text else type(error).__name__)
    if isinstance(error, ModuleNotFoundError):
        return _ended(f"There is no module {error.name}")
    own = _OWN_ERROR.findall(text)
    if own:
        return _ended(str(own[-1]))
    for pattern, sentence in _SENTENCES:
        if pattern.search(text):
            return sentence
    raised = _TRACEBACK.findall(text)
    if raised:
        name, reason = raised[-1]
        return _ended(f"An unexpected error, {name.rpartition('.')[2]}{f': {reason}' if reason else ''}")
    line = _unwrapped(text)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return _ended(f"The system refused: {error.strerror}{where}")
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        return _ended(f"Spark failed: {line or type(error).__name__}")
    return _ended(f"An unexpected error, {type(error).__name__}{f': {line}' if line else ''}")


def _unwrapped(text: str) -> str:
    """The line of an error's text that names the cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    line = lines[0]
    if line.startswith(_CALLING):
        line = causes[-1] if causes else lines[1].removeprefix(": ") if len(lines) > 1 else line
    for pattern in _WRAPPING:
        line = pattern.sub("", line)
    return _SQLSTATE.sub("", line)


def _ended(text: str) -> str:
    """At most SENTENCE_LENGTH_MAX characters, with a full stop."""
    text = text.strip()[: SENTENCE_LENGTH_MAX - 1]
    return text if text.endswith((".", "!", "?")) else f"{text}."
