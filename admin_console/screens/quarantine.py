"""The quarantine of a channel on its page: max attempts, the quarantined messages with their causes, and the redrive
under way."""

from typing import TYPE_CHECKING

from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats


def texts(stats: "ChannelStats", now_ns: int) -> dict[str, str]:
    """The panel's texts. now_ns: Unix, of the snapshot."""
    quarantine = stats.quarantine
    most = quarantine.max_attempts
    attempts = (
        f"{units.number(most)}: a message that comes back after so many deliveries is quarantined" if most else "off"
    )
    return {
        "quarantine_count": units.plural(stats.quarantined_count, "message"),
        "max_attempts": attempts,
        "quarantine_held": _held(stats, now_ns),
        "quarantine_why": ", ".join(f"{units.number(count)} {reason}" for reason, count in quarantine.reasons)
        or units.UNKNOWN,
        "quarantine_redrive": _redrive(stats),
    }


def flags(stats: "ChannelStats") -> dict[str, bool]:
    redrives = stats.redrive is not None and not stats.redrive.ended
    return {
        "has_quarantine": bool(stats.quarantine.max_attempts or stats.quarantined_count or stats.redrive),
        "quarantines": stats.quarantined_count > 0,
        "redriving": redrives,
        "redrivable": stats.quarantined_count > 0 and not redrives,
    }


def _held(stats: "ChannelStats", now_ns: int) -> str:
    quarantine = stats.quarantine
    if not quarantine.count or quarantine.oldest_ns is None:
        return "none"
    age = units.duration(max(0.0, (now_ns - quarantine.oldest_ns) / 1e9))
    held = f"{units.plural(quarantine.count, 'message')}, {units.byte_count(quarantine.bytes)}, the oldest for {age}"
    return f"{held}. Full: {quarantine.full}; messages that fail go back to the queue" if quarantine.full else held


def _redrive(stats: "ChannelStats") -> str:
    state = stats.redrive
    if state is None:
        return "none"
    share = f"{units.number(state.done)} of {units.number(state.redrive.total)}"
    if state.ended:
        return f"{state.ended}: {share} wait again"
    return f"under way: {share} wait again, {units.plural(state.redrive.rate, 'message')}/s"
