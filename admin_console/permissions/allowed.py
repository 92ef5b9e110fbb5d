"""What the user of a request may do, for templates: which buttons work, and why the others do not."""

from collections.abc import Sequence

from django.http import HttpRequest

from admin_console.accounts.models import User
from admin_console.gateway.sentences import and_list
from admin_console.permissions.table import ANYONE, LEAST_ROLES
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


class WhyNot:
    """`request.why_not.delete_topic` in a template: a sentence, empty when it is allowed."""

    def __init__(self, user: User | None) -> None:
        self._user = user

    def __getitem__(self, url_name: str) -> str:
        least = LEAST_ROLES[url_name]
        if may_use(self._user, url_name):
            return ""
        return f"Needs the role {least}; yours is {self._role}."

    def line(self, url_names: Sequence[str]) -> str:
        """One sentence for several acts, by their verbs; empty when all of them are allowed."""
        verbs: dict[str, list[str]] = {}
        for url_name in url_names:
            verb = url_name.partition("_")[0]
            if not may_use(self._user, url_name) and verb not in (known := verbs.setdefault(LEAST_ROLES[url_name], [])):
                known.append(verb)
        needs = [
            f"{and_list(known)} {'needs' if len(known) == 1 else 'need'} the role {least}"
            for least, known in verbs.items()
        ]
        return f"{', '.join(needs).capitalize()}; yours is {self._role}." if needs else ""

    @property
    def _role(self) -> str:
        return self._user.role if self._user else "nobody"


class CheckedRequest(HttpRequest):
    """A request to a view that needs a log-in: `user` is a User."""

    user: User
    may: Allowed
    why_not: WhyNot
