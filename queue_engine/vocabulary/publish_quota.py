"""One quota of --publish-quota: how fast each client may publish to the topics of a pattern.

    [TOKEN:]TOPICS=MESSAGES[/BYTES]        both a second, for each client; one of them may be left out

    orders-*=1000                          each client: 1,000 messages a second to all topics orders-* together
    shop:*=500/1000000                     the token "shop": 500 messages and 1 MB a second
    *=/5000000                             each client: 5 MB a second

TOPICS and TOKEN are patterns in which `*` stands for any characters (`vocabulary/grants.py`).
"""

import re
from dataclasses import dataclass

from queue_engine.vocabulary.grants import check_pattern, matches

RATE_MAX = 1_000_000_000_000
_FORM = re.compile(
    r"(?:(?P<token>[^:=]{1,64}):)?(?P<topics>[^:=]+)=(?P<messages>[0-9]{0,13})(?:/(?P<bytes>[0-9]{1,13}))?"
)


@dataclass(frozen=True, slots=True)
class PublishQuota:
    """text: as the option gives it. token: a pattern of tokens' names; "" for every client, also one without a token.
    messages_per_s, bytes_per_s: 0 for no limit."""

    text: str
    token: str
    topics: str
    messages_per_s: int
    bytes_per_s: int

    def applies(self, token: str, topic: str) -> bool:
        """Whether it limits a client with the token of that name, "" for none, on the topic."""
        return (not self.token or (bool(token) and matches(self.token, token))) and matches(self.topics, topic)


def parse_publish_quota(text: str) -> PublishQuota:
    """Raises ValueError with a sentence that names the text and its fault."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:160]!r} is not [TOKEN:]TOPICS=MESSAGES[/BYTES], such as orders-*=1000/5000000")
    try:
        check_pattern(found["topics"])
    except ValueError as exc:
        raise ValueError(f"{text[:160]!r}: {exc}") from exc
    quota = PublishQuota(
        text, found["token"] or "", found["topics"], int(found["messages"] or 0), int(found["bytes"] or 0)
    )
    if not quota.messages_per_s and not quota.bytes_per_s:
        raise ValueError(f"{text[:160]!r} limits neither messages nor bytes: each is a whole number from 1, a second")
    for rate, unit in ((quota.messages_per_s, "messages"), (quota.bytes_per_s, "bytes")):
        if rate > RATE_MAX:
            raise ValueError(f"{text[:160]!r} has {rate} {unit} a second and the most is {RATE_MAX}")
    return quota
