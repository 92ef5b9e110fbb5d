"""The permissions of one client: the result of its AUTH, or of its token."""

from collections.abc import Collection, Sequence
from typing import Protocol

from queue_engine.vocabulary.permission import Permission

# Answers that one authorization remembers; a client with more topics than that computes some of them again.
REMEMBERED_MAX = 4_096


class Allowance(Protocol):
    """One part of an authorization. permissions: of the topics and channels that it matches."""

    @property
    def permissions(self) -> Collection[Permission]: ...

    def allows(self, permission: Permission, topic: str, channel: str) -> bool:
        """Whether it allows this on the topic. channel: "" for an act on no channel, such as publishing."""
        ...


class Authorization:
    """The identity of a client and its permissions, until they end.

    identity, identity_url: the name, and a page about it, as the auth server or the token names them. permission_count:
    how many parts it has, as AUTH answers it. ends_ns: when it ends and must be requested anew, monotonic ns; None when
    only `end` ends it. token_id: of the token it was made from; "" for others.
    """

    __slots__ = ("_allowances", "_remembered", "end_reason", "ends_ns", "identity", "identity_url", "token_id")

    def __init__(
        self,
        identity: str,
        allowances: Sequence[Allowance],
        *,
        identity_url: str = "",
        ends_ns: int | None = None,
        token_id: str = "",
    ) -> None:
        self.identity = identity
        self.identity_url = identity_url
        self.ends_ns = ends_ns
        self.token_id = token_id
        self.end_reason = ""  # why it has ended; "" while it has not
        self._allowances = tuple(allowances)
        self._remembered: dict[tuple[Permission, str, str], bool] = {}

    @property
    def permission_count(self) -> int:
        return len(self._allowances)

    def may(self, permission: Permission, topic: str, channel: str = "") -> bool:
        """Whether the client may do this on the topic, and on its channel where there is one."""
        key = (permission, topic, channel)
        answer = self._remembered.get(key)
        if answer is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            answer = any(one.allows(permission, topic, channel) for one in self._allowances)
            self._remembered[key] = answer
        return answer

    def holds(self, permission: Permission) -> bool:
        """Whether the client may do this on some topic."""
        return any(permission in one.permissions for one in self._allowances)

    def end(self, reason: str) -> None:
        """Take every right away. reason: a sentence without its point, such as "the token deploy was revoked"."""
        self.end_reason = reason
        self._allowances = ()
        self._remembered.clear()
