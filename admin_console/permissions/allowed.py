"""What the user of a request may do, for templates: which buttons work, and why the others do not."""

from admin_console.accounts.models import User
from admin_console.accounts.roles import Role
from admin_console.permissions.table import ANYONE, LEAST_ROLES


def may_use(user: User | None, url_name: str) -> bool:
    """Whether `user` (None: not logged in) may use the URL of that name; false for one without a rule."""
    least = LEAST_ROLES.get(url_name)
    if least is None:
        return False
    if least == ANYONE:
        return True
    return user is not None and user.has_role(Role(least))


class Allowed:
    """`request.may.pause_channel` in a template: true or false by the table."""

    def __init__(self, user: User | None) -> None:
        self._user = user

    def __getitem__(self, url_name: str) -> bool:
        if url_name not in LEAST_ROLES:
            raise KeyError(url_name)
        return may_use(self._user, url_name)


class WhyNot:
    """`request.why_not.delete_topic` in a template: a sentence, empty when it is allowed."""

    def __init__(self, user: User | None) -> None:
        self._user = user

    def __getitem__(self, url_name: str) -> str:
        least = LEAST_ROLES[url_name]
        if may_use(self._user, url_name):
            return ""
        role = self._user.role if self._user else "nobody"
        return f"Needs the role {least}; yours is {role}."
