"""Every table of the console, gathered where Django looks for them."""

from admin_console.accounts.models import User
from admin_console.audit.models import AuditRow

__all__ = ["AuditRow", "User"]
