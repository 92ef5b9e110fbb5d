"""The permissions of a request's user, for templates: which buttons work, and why the others do not."""

from collections.abc import Mapping

from django.http import HttpRequest

from admin_console.accounts.models import User
from admin_console.gateway.sentences import and_list
from admin_console.permissions.table import ANYONE, CONTENTS, LEAST_ROLES
from admin_console.vocabulary.roles import Role


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

    @property
    def see_contents(self) -> bool:
        """Whether bodies and keys of messages are shown."""
        return may_use(self._user, CONTENTS)


class WhyNot:
    """`request.why_not.delete_topic` in a template: a sentence, empty when it is allowed."""

    def __init__(self, user: User | None) -> None:
        self._user = user

    def __getitem__(self, url_name: str) -> str:
        least = LEAST_ROLES[url_name]
        if may_use(self._user, url_name):
            return ""
        return f"Needs the role {least}; yours is {self._role}."

    def line(self, labels: Mapping[str, str]) -> str:
        """One sentence for several acts, the least role first; empty when all are allowed. labels: of their buttons."""
        needing: dict[str, dict[str, None]] = {}  # least role → labels, each once
        for url_name, label in labels.items():
            if not may_use(self._user, url_name):
                needing.setdefault(LEAST_ROLES[url_name], {})[label] = None
        needs = [
            f"{and_list(list(names))} {'needs' if len(names) == 1 else 'need'} the role {least}"
            for least, names in sorted(needing.items(), key=lambda entry: list(Role).index(Role(entry[0])))
        ]
        return f"{', '.join(needs)}; yours is {self._role}." if needs else ""

    @property
    def _role(self) -> str:
        return self._user.role if self._user else "none"


class CheckedRequest(HttpRequest):
    """A request to a view that needs a log-in: `user` is a User."""

    user: User
    may: Allowed
    why_not: WhyNot
