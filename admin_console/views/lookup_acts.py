"""Acts at nsqlookupds: hide a producer, remove a name that has no producer, create a name."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from admin_console.cluster.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.lookupd_answers import ListedTopic, LookupdOutcome, topics_listed
from admin_console.gateway.gateway import DONE, FAILED, NAME_LENGTH_MAX, UNKNOWN, ActResult
from admin_console.gateway.sentences import and_list
from admin_console.views.act_page import ActPage, ComplaintError, NotThereError
from admin_console.views.lookup import lookupd_sources, reports_of
from admin_console.views.question import Choice, Field, Question
from admin_console.views.safe_acts import NAME_HELP, checked_name
from admin_console.vocabulary import units


class LookupAct(ActPage):
    """An act at nsqlookupds, on their lists of now."""

    @property
    def page_url(self) -> str:
        return reverse("lookup")

    @property
    def cluster(self) -> Cluster:
        """Raises NotThereError."""
        cluster = get_cluster()
        if cluster is None:
            raise NotThereError("The console calls no nsqlookupds: it is starting or stopping.")
        return cluster

    def lookupds(self) -> list[HttpAddress]:
        snapshot = self.gateway.snapshot()
        return list(lookupd_sources(snapshot.lookupds if snapshot is not None else ()))

    def listed(self) -> tuple[ListedTopic | None, list[str]]:
        """The topic in new answers of all nsqlookupds, None where they list none of its name; and the addresses of
        those that do not answer."""
        addresses = self.lookupds()
        reports = reports_of(addresses, is_new=True)
        answers = [one for one in reports if one is not None and not one.error]
        silent = {str(one) for one in addresses} - {str(one.address) for one in answers}
        found = next((one for one in topics_listed(answers) if one.topic == self.topic), None)
        return found, sorted(silent)

    def at_lookupds(self, addresses: Sequence[HttpAddress], path: str, **names: str) -> tuple[LookupdOutcome, ...]:
        return self.cluster.lookupds.act(addresses, path, {key: value for key, value in names.items() if value})


class TombstoneProducer(LookupAct):
    """Makes the nsqlookupds that list a producer hide it from consumers for a while."""

    routes = {"tombstone_producer": "lookup/<name:topic>/<str:node>/~tombstone/"}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.node: str = kwargs["node"]

    @property
    def part(self) -> str:
        return f"node {self.node}"

    def addresses(self) -> list[HttpAddress]:
        """The nsqlookupds that name the server as a producer. Raises NotThereError."""
        listed, _ = self.listed()
        found = [one for one in listed.producers if one.node == self.node] if listed is not None else []
        if not found or not found[0].visible_at:
            raise NotThereError(f"No nsqlookupd names {self.node[:80]} as a producer of {self.topic}.")
        return list(found[0].visible_at)

    def question(self) -> Question:
        count = units.plural(len(self.addresses()), "nsqlookupd")
        hidden = (
            f"Consumers that look {self.topic} up at {count} do not find {self.node} for a while: 45 s, or the "
            "--tombstone-lifetime of the nsqlookupd. Afterwards they find it again if it still has the topic."
        )
        stays = (
            "Connected consumers stay connected, and the server's messages stay. To end the topic there, delete it "
            "on that server within that time."
        )
        return self.pose(
            f"Tombstone {self.node} for {self.topic}",
            (hidden, stays),
            button=f"Tombstone {self.node}",
        )

    def audit_detail(self, details: dict[str, Any]) -> str:
        return self.node

    def details(self) -> dict[str, Any]:
        return {"addresses": self.addresses()}

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._tombstone(details["addresses"]))

    def _tombstone(self, addresses: list[HttpAddress]) -> ActResult:
        outcomes = self.at_lookupds(addresses, "/topic/tombstone", topic=self.topic, node=self.node)
        producer = f"{self.node} as a producer of {self.topic}"
        return result_of(f"Tombstoned {producer}", f"Did not tombstone {producer}.", outcomes)


class Unregister(LookupAct):
    """Removes a topic or channel that no producer has from the nsqlookupds that list it."""

    routes = {
        "unregister_topic": "lookup/<name:topic>/~unregister/",
        "unregister_channel": "lookup/<name:topic>/<name:channel>/~unregister/",
    }

    def found(self) -> tuple[list[HttpAddress], ListedTopic, list[str]]:
        """The nsqlookupds that list it without a producer, all about the topic, and the addresses of those that do not
        answer. Raises NotThereError, also where a producer has it by now."""
        listed, silent = self.listed()
        at = () if listed is None else listed.lonely.get(self.channel, ()) if self.channel else listed.at
        if listed is not None and (self.channel in listed.channels if self.channel else not listed.is_lonely):
            having = and_list([one.node for one in listed.producers if not one.is_silent])
            raise NotThereError(f"{self.name} has a producer by now: {having}. It stays at the nsqlookupds.")
        if listed is None or not at:
            raise NotThereError(f"No nsqlookupd that answers lists {self.name}.")
        return list(at), listed, silent

    def question(self) -> Question:
        at, listed, silent = self.found()
        lost = [one.node for one in listed.producers] if not self.channel else []
        channels = [] if self.channel else sorted({*listed.lonely, *listed.channels})
        names = and_list([str(one) for one in at])
        sentences = [f"{names} {'lists' if len(at) == 1 else 'list'} {self.name} no more. No message is lost by it."]
        if channels:
            sentences.append(f"With it {units.plural(len(channels), 'channel')} of it: {_shortened(channels)}.")
        sentences.append(
            f"A node that creates {self.topic} later does not make "
            f"{f'the channel {self.channel}' if self.channel else 'these channels'} by itself any more: consumers that "
            "come after the first messages get only later ones."
            if self.channel or channels
            else "A producer or consumer of that name makes it again."
        )
        if lost:
            sentences.append(
                f"{and_list(lost)} registered it and sends no PING now: it registers again once it reconnects."
            )
        if silent:
            sentences.append(f"{and_list(silent)} does not answer, and may go on to list it.")
        return self.pose(f"Unregister {self.name}", sentences, is_dangerous=True)

    def details(self) -> dict[str, Any]:
        return {"addresses": self.found()[0]}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"at {', '.join(map(str, details['addresses']))}"[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._unregister(details["addresses"]))

    def _unregister(self, addresses: list[HttpAddress]) -> ActResult:
        path = "/channel/delete" if self.channel else "/topic/delete"
        outcomes = self.at_lookupds(addresses, path, topic=self.topic, channel=self.channel)
        return result_of(f"Unregistered {self.name}", f"Did not unregister {self.name}.", outcomes)


class Register(LookupAct):
    """Creates a topic, or a topic with a channel, at nsqlookupds."""

    routes = {"register_name": "lookup/~create/"}

    def question(self) -> Question:
        posted = self.request.POST
        addresses = [str(one) for one in self.lookupds()]
        if not addresses:
            return self._without_lookupds()
        chosen = posted.getlist("lookupds") if posted else addresses
        return self.pose(
            "Create a topic or channel at nsqlookupds",
            [
                "A node that creates the topic later makes these channels with it: no message passes them by.",
                "Consumers that look the topic up find its channels, and no producer until a node has it.",
            ],
            [
                Field(
                    "topic",
                    "Topic",
                    value=posted.get("topic", self.request.GET.get("topic", "")),
                    help=NAME_HELP,
                    is_required=True,
                    length_max=NAME_LENGTH_MAX,
                ),
                Field(
                    "channel",
                    "Channel",
                    value=posted.get("channel", ""),
                    help="Empty for the topic alone.",
                    length_max=NAME_LENGTH_MAX,
                ),
                Field(
                    "lookupds",
                    "At these nsqlookupds",
                    kind="checks",
                    choices=tuple(Choice(one, one, one in chosen) for one in addresses),
                ),
            ],
            button="Create",
        )

    def _without_lookupds(self) -> Question:
        sentence = "There is no nsqlookupd: name one with --lookupd-http-address, or under Nodes, Addresses."
        return replace(self.pose("Create a topic or channel at nsqlookupds", [sentence]), button="", fields=[])

    def details(self) -> dict[str, Any]:
        posted = self.request.POST
        self.topic = checked_name(posted.get("topic", "").strip(), "topic")
        channel = posted.get("channel", "").strip()
        self.channel = checked_name(channel, "channel") if channel else ""
        wanted = posted.getlist("lookupds")
        addresses = [one for one in self.lookupds() if str(one) in wanted]
        if not addresses:
            raise ComplaintError("No nsqlookupd is ticked. Nothing was created.")
        return {"addresses": addresses}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"at {', '.join(map(str, details['addresses']))}"[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._create(details["addresses"]))

    def _create(self, addresses: list[HttpAddress]) -> ActResult:
        # A channel brings its topic with it.
        path = "/channel/create" if self.channel else "/topic/create"
        outcomes = self.at_lookupds(addresses, path, topic=self.topic, channel=self.channel)
        return result_of(f"Created {self.name}", f"Did not create {self.name}.", outcomes)


def result_of(done: str, failed: str, outcomes: Iterable[LookupdOutcome]) -> ActResult:
    """The act at all of them. done: the beginning of the sentence about those that did it; failed: where none did."""
    listed = list(outcomes)
    left = [one for one in listed if one.error]
    count = len(listed) - len(left)
    of = f"{count} of {units.plural(len(listed), 'nsqlookupd')}" if left else units.plural(count, "nsqlookupd")
    sentences = [f"{done} at {of}." if count else failed]
    sentences += [f"{one.error}{': it may have been done there' if one.may_be_done else ''}." for one in left]
    verdict = DONE if not left else UNKNOWN if any(one.may_be_done for one in left) else FAILED
    return ActResult(verdict, " ".join(sentences))


def _shortened(names: Sequence[str]) -> str:
    return and_list(list(names)) if len(names) <= 8 else f"{', '.join(names[:7])} and {len(names) - 7} more"
