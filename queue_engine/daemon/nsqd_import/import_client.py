"""The requests of an import: batches under keys, pauses, and FINs of messages that a channel did not have."""

from collections.abc import Sequence
from typing import Any

import orjson

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.vocabulary.errors import EngineRefusedError, NsqdImportError, TopicMissingError

# Results of a message that needs no FIN of ours.
_NOT_THERE = ("", "FINISHED_ALREADY", "NOT_FOUND")


class ImportClient(LogClient):
    """Raises as `LogClient` does."""

    def topic_stats(self, topic: str) -> dict[str, Any] | None:
        """The topic of /stats; None when there is none."""
        stats = orjson.loads(
            self._request("GET", "/stats", {"format": "json", "topic": topic, "include_mem": "false"})[1]
        )
        found: list[dict[str, Any]] = [one for one in stats["topics"] or () if one["topic_name"] == topic]
        return found[0] if found else None

    def number_of(self, topic: str) -> int:
        """The topic's number: another topic of the same name has another one."""
        return self._topic({"topic": topic}).number

    def synced_offset(self, topic: str) -> int:
        """The end of the topic's part that is certain to be on the disk."""
        return self._topic({"topic": topic}).synced_offset

    def create_channel(self, topic: str, channel: str) -> None:
        self._request("POST", "/channel/create", {"topic": topic, "channel": channel})

    def pause(self, topic: str, channel: str, reason: str) -> None:
        """channel: "" for the topic."""
        self._request("POST", _place(channel, "pause"), {**_named(topic, channel), "reason": reason})

    def unpause(self, topic: str, channel: str) -> None:
        """channel: "" for the topic. One that was deleted meanwhile needs no more."""
        try:
            self._request("POST", _place(channel, "unpause"), _named(topic, channel))
        except TopicMissingError:
            pass
        except EngineRefusedError as exc:
            if exc.status != 404:
                raise

    def finish(self, topic: str, channel: str, ids: Sequence[str]) -> None:
        """Finish messages that wait; those that are finished, or gone, stay so. Raises NsqdImportError when one can't
        be finished: its topic was paused meanwhile."""
        answer = self._request("POST", "/channel/message/finish", _named(topic, channel), "\n".join(ids).encode())[1]
        refused = [one for one in orjson.loads(answer)["results"] if one["code"] not in _NOT_THERE]
        if refused:
            raise NsqdImportError(
                f"{len(refused)} messages that channel {channel} did not have can't be finished there: "
                f"{refused[0]['text'] or refused[0]['code']}. Resume the topic on the server and run this again"
            )


def _place(channel: str, act: str) -> str:
    return f"/channel/{act}" if channel else f"/topic/{act}"


def _named(topic: str, channel: str) -> dict[str, str]:
    return {"topic": topic, "channel": channel} if channel else {"topic": topic}
