"""The gateway that this process has, if it has one: `serve` sets it, views get it."""

from admin_console.gateway.gateway import EngineUnavailableError, Gateway

_current: Gateway | None = None


def set_gateway(gateway: Gateway | None) -> None:
    """Called by `serve` once its engine runs, and with None before it stops."""
    global _current
    _current = gateway


def get_gateway() -> Gateway:
    """The gateway. Raises EngineUnavailableError where no engine runs; the answer is then a page with 503."""
    if _current is None:
        raise EngineUnavailableError("The engine is not running: it is starting, stopping, or this is not `serve`.")
    return _current
