"""The command `penstock-lookup`, or `python -m queue_engine.lookup`: scripts start it instead of nsqlookupd."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import uvloop

from queue_engine.daemon.go_flags.command_line import FlagSet, Given
from queue_engine.daemon.go_flags.flag import Flag, FlagType
from queue_engine.daemon.nsqd_lines import NsqdLines
from queue_engine.lookup.options import LookupOptions
from queue_engine.service.process.streams import open_missing_descriptors
from queue_engine.vocabulary.descriptor_shares import raise_limit
from queue_engine.vocabulary.errors import FlagError, OptionsError, PenstockError
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.version import version_line

logger = logging.getLogger("nsqlookupd")

PROGRAM = "nsqlookupd"
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


def flag_set() -> FlagSet:
    """All flags, as `LookupOptions` has them."""
    flags = []
    for spec in fields(LookupOptions):
        default: Any = spec.default
        is_duration = spec.name.endswith("_ms")
        kind = (
            FlagType.DURATION
            if is_duration
            else {bool: FlagType.BOOL, int: FlagType.INT}.get(type(default), FlagType.TEXT)
        )
        shown = format_duration(default) if is_duration else "" if default is False else str(default)
        flags.append(Flag(flag_of(spec.name)[2:], kind, spec.metadata["help"], shown))
    return FlagSet(PROGRAM, flags)


def options_of(given: Given) -> LookupOptions:
    """Raises OptionsError with every complaint."""
    names = {flag_of(spec.name)[2:]: spec.name for spec in fields(LookupOptions)}
    values: dict[str, Any] = {names[flag]: value for flag, value in given.values.items()}
    options = LookupOptions(**values)
    options.validate()
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status."""
    open_missing_descriptors()
    flags = flag_set()
    try:
        given = flags.read(sys.argv[1:] if arguments is None else arguments)
    except FlagError as exc:
        print(exc, *flags.usage(), sep="\n", file=sys.stderr)
        return 2
    if given.wants_help:
        print(*flags.usage(), sep="\n", file=sys.stderr)
        return 0
    if given.wants_version:
        print(version_line(PROGRAM))
        return 0
    try:
        options = options_of(given)
    except OptionsError as exc:
        print(exc, file=sys.stderr)
        return 2
    _log_to_stderr(options)
    raise_limit()  # shells give 1,024 descriptors, and --max-connections wants more
    for key in given.unknown_keys:
        logger.warning("the configuration file's key %s names no flag", key)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(options))
    except PenstockError as exc:
        logger.critical("%s", exc)
        return 1
    return 0


def _log_to_stderr(options: LookupOptions) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(NsqdLines(options.log_prefix))
    level = logging.DEBUG if options.verbose else _LEVELS[options.log_level.lower()]
    logging.basicConfig(level=level, handlers=[handler])


async def _serve(options: LookupOptions) -> None:
    from queue_engine.lookup.server import LookupServer  # a mistake in the flags is answered without it

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = LookupServer(options)
    logger.info("%s", version_line(PROGRAM))
    await server.start()
    logger.info("TCP: listening on %s:%d", *server.tcp_address)
    logger.info("HTTP: listening on %s:%d", *server.http_address)
    await stopped.wait()
    logger.info("TCP: closing %s:%d", *server.tcp_address)
    logger.info("HTTP: closing %s:%d", *server.http_address)
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
