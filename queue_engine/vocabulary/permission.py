"""The permissions of a program."""

from enum import StrEnum


class Permission(StrEnum):
    """publish: messages to a topic. consume: a channel's messages, and reading a topic's. administer: every act on
    topics and channels, such as pausing, emptying and deleting."""

    PUBLISH = "publish"
    CONSUME = "consume"
    ADMINISTER = "administer"
