"""Makes Java's log lines look like ours (`vocabulary/log_lines.py`), as text or as JSON.

Three kinds of lines stay as they are: those of Java's launcher before there is a log, those of Spark's Python
processes, and Java's report of a crash.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from queue_engine.vocabulary import log_lines

FILE_NAME = "log4j2.properties"

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
# Python's names.
_LEVEL = "%level{WARN=WARNING, FATAL=CRITICAL, TRACE=DEBUG}"
# A line's end in a message is escaped, a traceback is indented; other control characters go. A properties
# file takes one backslash, log4j's pattern the next.
_MESSAGE = r"%replace{%enc{%m}{CRLF}}{\\p{Cntrl}}{?}"
_TRACEBACK = r"%replace{%replace{%ex}{[\\p{Cntrl}&&[^\\n\\t]]|\\n\\z}{}}{\\n}{\n    }"
_PATTERN = rf"%d{{{_TIME}}}{{UTC}} {_LEVEL} %c: {_MESSAGE}%notEmpty{{\n    {_TRACEBACK}}}%n"

_JSON_FIELDS = {
    "time": {"$resolver": "timestamp", "pattern": {"format": _TIME, "timeZone": "UTC"}},
    "level": {"$resolver": "pattern", "pattern": _LEVEL, "stackTraceEnabled": False},
    "logger": {"$resolver": "logger", "field": "name"},
    "message": {"$resolver": "message", "stringified": True},
    "traceback": {"$resolver": "exception", "field": "stackTrace", "stackTrace": {"stringified": True}},
}

_TEXT_LAYOUT = f"""\
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {_PATTERN}
"""
_JSON_LAYOUT = f"""\
appender.stderr.layout.type = JsonTemplateLayout
appender.stderr.layout.eventTemplate = {json.dumps(_JSON_FIELDS)}
"""
# The level is Spark's own before the session sets another one. Hadoop's native library is no part of pyspark, and
# nothing here needs it.
_REST = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def java_option(directory: Path, environment: Mapping[str, str]) -> str:
    """Write log4j's configuration for the format that `environment` names into `directory`; return the option with
    which Java reads it. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE_NAME
    path.write_text((_JSON_LAYOUT if log_lines.is_json(environment) else _TEXT_LAYOUT) + _REST)
    return f"-Dlog4j2.configurationFile={path.absolute().as_uri()}"
