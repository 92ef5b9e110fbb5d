"""The draw for a consumer that wants a sample of its channel's messages (`sample_rate` in IDENTIFY)."""

from random import random


def draw(count: int, sample_rate: int) -> tuple[list[int], list[int]]:
    """Which of `count` messages the consumer gets, and which are left out: their indexes, in order. sample_rate: the
    percent that it gets, each message by a draw of its own."""
    kept: list[int] = []
    lost: list[int] = []
    share = sample_rate / 100
    for index in range(count):
        (kept if random() < share else lost).append(index)  # noqa: S311 - a sample is no secret
    return kept, lost
