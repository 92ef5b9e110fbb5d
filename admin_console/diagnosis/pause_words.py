"""A pause in words: who, since when, until when, why, and how much has come since."""

import re
from typing import TYPE_CHECKING

from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import Pause, Ramp


_PORT = re.compile(r":[0-9]{1,5}$")
_NAME_CHARACTERS_MAX = 24


def who(pause: "Pause") -> str:
    """A short name of its author: a client's address without the port."""
    name = _PORT.sub("", pause.by)
    return name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[: _NAME_CHARACTERS_MAX - 1]}…"


def since(pause: "Pause | None", now_ms: int) -> str:
    """` by anna for 42m`; "" where neither is recorded."""
    if pause is None:
        return ""
    by = f" by {who(pause)}" if pause.by else ""
    return f"{by} for {units.rough((now_ms - pause.since_ms) / 1000)}" if pause.since_ms else by


def left(pause: "Pause | None", now_ms: int) -> str:
    """`resumes in 3m`; "" without an end."""
    if pause is None or not pause.until_ms:
        return ""
    left_ms = pause.until_ms - now_ms
    return f"resumes in {units.rough(left_ms / 1000)}" if left_ms > 0 else "resumes now"


def chip(*, is_overdue: bool) -> str:
    """Without author and end, which the sentences beside it have."""
    return "▲ paused" if is_overdue else "❚❚ paused"


def overdue(pause: "Pause | None", refused: str, now_ms: int, limit_ms: int) -> str:
    """Why a pause has outlived its time, as a sentence; "" when it has not."""
    if refused:
        return f"Its end has come, and the disk refuses to resume it: {refused}. The server tries again by itself."
    late_ms = pause.overdue_ms(now_ms, limit_ms) if pause is not None else 0
    if not late_ms or pause is None:
        return ""
    if pause.until_ms:
        # The engine ends a pause within a tenth of a second: a moment more is no news.
        return f"It should have ended {units.rough(late_ms / 1000)} ago." if late_ms >= 5_000 else ""
    return f"It has no end, and lasts longer than {units.rough(limit_ms / 1000)}."


def details(pause: "Pause | None", now_ms: int) -> str:
    """`Reason: bad deploy. It resumes by itself in 3m, at 14:05:00 UTC.`, each where it is recorded."""
    if pause is None:
        return ""
    sentences = []
    if pause.reason:
        sentences.append(f"Reason: {pause.reason.rstrip('.')}.")
    if pause.until_ms > now_ms:
        left_text = units.rough((pause.until_ms - now_ms) / 1000)
        sentences.append(f"It resumes by itself in {left_text}, at {units.moment(pause.until_ms)} UTC.")
    if pause.changed_ms and pause.changed_by:
        sentences.append(f"{pause.changed_by} changed that at {units.moment(pause.changed_ms)} UTC.")
    return " ".join(sentences)


def began(pause: "Pause | None") -> str:
    """`The depth was 3 when the pause began.`; "" where that is not recorded."""
    return f"The depth was {units.number(pause.depth)} when the pause began." if pause and pause.since_ms else ""


def grown(pause: "Pause | None", depth: int) -> str:
    """`The depth was 3 when the pause began, and is 9 more now.`; "" where that is not recorded."""
    if pause is None or not pause.since_ms:
        return ""
    change = depth - pause.depth
    now = f"{units.number(abs(change))} {'more' if change > 0 else 'less'} now" if change else "the same now"
    return f"The depth was {units.number(pause.depth)} when the pause began, and is {now}."


def ramp(one: "Ramp", now_ms: int) -> str:
    """`It was resumed 40 s ago and delivers slowly for another 4m.`"""
    ago, left_text = (units.rough(span / 1000) for span in (now_ms - one.from_ms, one.until_ms - now_ms))
    return f"It was resumed {ago} ago, and delivers slowly, ever faster, for another {left_text}."
