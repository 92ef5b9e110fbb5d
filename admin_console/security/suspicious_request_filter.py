"""Logs one line without a traceback for requests that Django refuses as suspicious, since any client can send them."""

import logging


class SuspiciousRequestFilter(logging.Filter):
    """Takes the traceback off the records of `django.security`."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security"):
            record.exc_info = record.exc_text = None
        return True
