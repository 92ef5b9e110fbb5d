"""Notices on every page about the console's own files: damage, a disk that refuses them, audit rows that wait."""

from django.conf import settings

from admin_console.audit.record import get_row_buffer
from admin_console.audit.upkeep import chain_state
from admin_console.database.condition import CONDITION, Notice
from admin_console.gateway.tokens import complaint_about_tokens


def notices() -> list[Notice]:
    """The gravest first."""
    found = CONDITION.notices()
    if settings.SECRET_KEY_COMPLAINT:
        found.append(Notice("The console's secret key was damaged and is replaced.", settings.SECRET_KEY_COMPLAINT))
    if waiting := waiting_rows():
        found.append(waiting)
    state = chain_state()
    if state is not None and state.faults:
        more = f" {len(state.faults) - 1:,} more: `penstock audit verify` names them." if len(state.faults) > 1 else ""
        found.append(Notice("The audit list is not as it was written.", state.faults[0] + more, "danger"))
    return found


def page_notices() -> list[Notice]:
    """Those of `notices`, and the other notices of a page; reads files."""
    found = notices()
    if complaint := complaint_about_tokens(settings.DATA_PATH):
        found.append(Notice("Tokens can't be read: the tokens read before stay valid.", complaint, "danger"))
    return found


def waiting_rows() -> Notice | None:
    """How many audit rows wait in memory, and how many were lost; None while all are written."""
    buffer = get_row_buffer()
    if buffer is None or not (buffer.refusal or buffer.lost_count):
        return None
    lost = f"{buffer.lost_count:,} were lost: memory keeps 10,000 at most." if buffer.lost_count else ""
    if not buffer.refusal:
        return Notice("Audit rows were lost.", lost, "danger")
    count = buffer.waiting_count
    rows = f"{count:,} audit row waits" if count == 1 else f"{count:,} audit rows wait"
    text = f"{rows} in memory until the disk takes {'it' if count == 1 else 'them'} ({buffer.refusal}). {lost}".strip()
    return Notice("The audit list can't be written.", text, "danger" if lost else "warning")
