"""The messages of a topic that have a key, as its page shows them: the newest first."""

from urllib.parse import urlencode

from django.urls import reverse

from admin_console.gateway.gateway import KeyPage, MessagePage, get_gateway
from admin_console.gateway.sentences import counted


class KeyLook:
    """One look. text: the key as it was asked for. before: an offset, None for the newest."""

    def __init__(self, text: str, key: bytes, before: int | None) -> None:
        self._text = text
        self._key = key
        self._before = before
        self._found: KeyPage | None = None

    def page_of(self, topic: str, count_max: int) -> MessagePage:
        """Raises ReadRefusedError."""
        self._found = get_gateway().find_key(topic, self._key, count_max, before=self._before)
        return self._found.page

    def links(self, topic: str, form: str) -> dict[str, str]:
        """What the page shows beside the messages, once they are found."""
        found = self._found
        assert found is not None
        url = reverse("topic_messages", args=(topic,))
        older = {"key": self._text, "before": str(found.next_before), "form": form}
        still = counted(found.not_indexed_count, "message")
        return {
            "found_key": self._text,
            "older_url": "" if found.next_before is None else f"{url}?{urlencode(older)}",
            "newer_url": "" if self._before is None else f"{url}?{urlencode({'key': self._text, 'form': form})}",
            "not_indexed": f"{still} from offset {found.indexed_upto} on are not indexed yet and may be missing here."
            if found.not_indexed_count
            else "",
        }
