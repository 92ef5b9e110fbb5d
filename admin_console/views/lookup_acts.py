"""Acts at nsqlookupds: hide a producer, remove a name that has no producer, create a name there and on nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from django.http import HttpRequest
from django.urls import reverse

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.lookupds.lookupd_answers import ListedTopic, LookupdOutcome, topics_listed
from admin_console.gateway.acting_nodes import ActingNode, EmbeddedNode, acting_nodes
from admin_console.gateway.fan_out import NodeResult, fan_out, reasons_of
from admin_console.gateway.gateway import DONE, FAILED, NAME_LENGTH_MAX, UNKNOWN, ActOrder, ActResult, Asker
from admin_console.gateway.held import Held
from admin_console.gateway.sentences import and_list
from admin_console.permissions.allowed import CheckedRequest, may_use
from admin_console.views.act_page import ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.lookup import lookupd_sources, reports_of
from admin_console.views.on_nodes import NODE, left_out, messages_in_all
from admin_console.views.question import Choice, Field, Question
from admin_console.views.risky_acts import EXPECTED, expected_of
from admin_console.views.safe_acts import NAME_HELP, checked_name
from admin_console.vocabulary import units
from admin_console.vocabulary.form_limits import NODES_MAX


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
        messages = self._messages_there()
        if messages is None:
            stays = (
                "Connected consumers stay connected, and the server's messages stay. To end the topic there, delete it "
                "on that server within that time."
            )
            return self.pose(self._title, (hidden, stays), button=f"Tombstone {self.node}")
        stays = (
            f"Connected consumers stay connected, and {units.plural(messages, 'message')} of {self.topic} "
            f"{'stays' if messages == 1 else 'stay'} there. To end the topic there, as nsqadmin's Tombstone does, have "
            "it deleted as well."
        )
        return self.pose(
            self._title,
            (hidden, stays),
            [
                Field(EXPECTED, "", kind="hidden", value=str(messages)),
                Field(
                    "typed_name",
                    f"To delete {self.topic} on {self.node} as well, type {self.topic}",
                    help="Empty to hide it alone. Deleting removes its channels and messages there.",
                    length_max=140,
                ),
            ],
            button=f"Tombstone {self.node}",
        )

    @property
    def _title(self) -> str:
        return f"Tombstone {self.node} for {self.topic}"

    def _deleter(self) -> ActingNode | None:
        """The node where the user may delete the topic; None where that can't be done from here."""
        found = acting_nodes(self.gateway).get(self.node)
        may_delete = may_use(cast(CheckedRequest, self.request).user, "delete_topic")
        return found if found is not None and may_delete and not found.why_not("delete_topic") else None

    def _messages_there(self) -> int | None:
        """How many messages of the topic the node has; None where it can't be deleted from here."""
        deleter = self._deleter()
        if deleter is None:
            return None
        if isinstance(deleter, EmbeddedNode):
            found = [one for one in self.gateway.exact(self.topic).topics if one.topic_name == self.topic]
            return messages_in_all(found[0]) if found else None
        node = next((one for one in self.cluster.state.answering if one.name == self.node), None)
        topic = node.stats.topics.get(self.topic) if node is not None and node.stats is not None else None
        return Held.of(topic).in_all.messages if topic is not None else None

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"{self.node}, and delete the topic there" if details["deletes"] else self.node

    def details(self) -> dict[str, Any]:
        typed = self.request.POST.get("typed_name", "").strip()
        if typed and typed != self.topic:
            raise ComplaintError(f"{typed[:140]!r} is not {self.topic}. Nothing was done.")
        if typed and self._deleter() is None:
            raise ComplaintError(f"{self.topic} can't be deleted on {self.node} from here. Nothing was done.")
        return {
            "addresses": self.addresses(),
            "deletes": bool(typed),
            **expected_of(self.request.POST.get(EXPECTED, "")),
        }

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._tombstone(details))

    def _tombstone(self, details: dict[str, Any]) -> ActResult:
        outcomes = self.at_lookupds(details["addresses"], "/topic/tombstone", topic=self.topic, node=self.node)
        producer = f"{self.node} as a producer of {self.topic}"
        hidden = result_of(f"Tombstoned {producer}", f"Did not tombstone {producer}.", outcomes)
        deleter = self._deleter() if details["deletes"] else None
        if deleter is None:
            return hidden
        if hidden.verdict != DONE:
            # A consumer that finds the node there would make the topic again.
            return replace(hidden, message=f"{hidden.message} {self.topic} was not deleted on {self.node}.")
        expected = {EXPECTED: details[EXPECTED]} if EXPECTED in details else {}
        order = ActOrder("delete_topic", self.topic, "", Asker(self.asker().by), expected)
        deleted = fan_out([(deleter, order)])[0].result
        return replace(deleted, message=f"{hidden.message} On {self.node}: {deleted.message}")


def may_go_on(silent: list[str]) -> str:
    """A sentence about nsqlookupds that do not answer."""
    return f"{and_list(silent)} {'does' if len(silent) == 1 else 'do'} not answer, and may go on to list it."


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
            words = "sends no PING now: it registers again once it reconnects"
            if len(lost) > 1:
                words = "send no PING now: they register again once they reconnect"
            sentences.append(f"{and_list(lost)} registered it and {words}.")
        if silent:
            sentences.append(may_go_on(silent))
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
    """Creates a topic, or a topic with a channel, at nsqlookupds and on nodes."""

    routes = {"register_name": "lookup/~create/"}

    def question(self) -> Question:
        given = self.request.POST if self.request.method == "POST" else self.request.GET
        addresses = [str(one) for one in self.lookupds()]
        nodes = list(self.nodes_by_name())
        if not addresses and len(nodes) < 2:
            return self._alone()
        at = given.getlist("lookupds") if self.request.method == "POST" else addresses
        return self.pose(
            "Create a topic or channel",
            [
                "At nsqlookupds: a node that creates the topic later makes these channels with it, before messages.",
                "Consumers that look it up find no producer until a node has it.",
                "On nodes: a channel gets the messages that are published there from now on.",
                *left_out(len(nodes)),
            ],
            [
                Field(
                    "topic",
                    "Topic",
                    value=given.get("topic", ""),
                    help=NAME_HELP,
                    is_required=True,
                    length_max=NAME_LENGTH_MAX,
                ),
                Field(
                    "channel",
                    "Channel",
                    value=given.get("channel", ""),
                    help="Empty for the topic alone.",
                    length_max=NAME_LENGTH_MAX,
                ),
                *_checks("lookupds", "At these nsqlookupds", addresses, at),
                *_checks(NODE, "On these nodes", nodes[:NODES_MAX], given.getlist(NODE)),
            ],
            button="Create",
        )

    def nodes_by_name(self) -> dict[str, ActingNode]:
        """Each node once."""
        found = acting_nodes(self.gateway)
        return {name: node for name, node in found.items() if name == node.name}

    def _alone(self) -> Question:
        sentence = "There is no nsqlookupd and no other node: name some under Nodes, Addresses."
        return replace(self.pose("Create a topic or channel", [sentence]), button="", fields=[])

    def details(self) -> dict[str, Any]:
        posted = self.request.POST
        self.topic = checked_name(posted.get("topic", "").strip(), "topic")
        channel = posted.get("channel", "").strip()
        self.channel = checked_name(channel, "channel") if channel else ""
        addresses = [one for one in self.lookupds() if str(one) in posted.getlist("lookupds")]
        wanted = posted.getlist(NODE)
        nodes = {name: node for name, node in self.nodes_by_name().items() if name in wanted}
        if not addresses and not nodes:
            raise ComplaintError("No nsqlookupd and no node is ticked. Nothing was created.")
        return {"addresses": addresses, "nodes": nodes}

    def audit_detail(self, details: dict[str, Any]) -> str:
        places = [f"at {one}" for one in details["addresses"]] + [f"on {one}" for one in details["nodes"]]
        return ", ".join(places)[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._create(details["addresses"], details["nodes"]))

    def _create(self, addresses: list[HttpAddress], nodes: Mapping[str, ActingNode]) -> ActResult:
        # A channel brings its topic with it.
        path = "/channel/create" if self.channel else "/topic/create"
        outcomes = self.at_lookupds(addresses, path, topic=self.topic, channel=self.channel) if addresses else ()
        results = self._fan_out("create_topic", "", nodes)
        if self.channel:
            having = {one.node for one in results if one.result.verdict == DONE}
            left = [one for one in results if one.node not in having]
            made = self._fan_out(
                "create_channel", self.channel, {name: nodes[name] for name in nodes if name in having}
            )
            results = [*left, *made]
        return result_of(f"Created {self.name}", f"Did not create {self.name}.", outcomes, results)

    def _fan_out(self, action: str, channel: str, nodes: Mapping[str, ActingNode]) -> list[NodeResult]:
        order = ActOrder(action, self.topic, channel, Asker(self.asker().by), {})
        return fan_out([(node, order) for node in nodes.values()])


def _checks(name: str, label: str, values: Sequence[str], chosen: Sequence[str]) -> list[Field]:
    choices = tuple(Choice(one, one, one in chosen) for one in values)
    return [Field(name, label, kind="checks", choices=choices)] if choices else []


def result_of(
    done: str, failed: str, outcomes: Sequence[LookupdOutcome], results: Sequence[NodeResult] = ()
) -> ActResult:
    """The act at all of them. done: the beginning of the sentence about those that did it; failed: where none did."""
    places: list[str] = []
    for count, all_count, preposition, noun in (
        (sum(not one.error for one in outcomes), len(outcomes), "at", "nsqlookupd"),
        (sum(one.result.verdict == DONE for one in results), len(results), "on", "node"),
    ):
        of = units.plural(all_count, noun)
        if count:
            places.append(f"{preposition} {of}" if count == all_count else f"{preposition} {count} of {of}")
    sentences = [f"{done} {' and '.join(places)}." if places else failed]
    sentences += [
        f"{one.error}{': it may have been done there' if one.may_be_done else ''}." for one in outcomes if one.error
    ]
    left = [one for one in results if one.result.verdict != DONE]
    sentences += [reasons_of(left)] if left else []
    if any(one.may_be_done for one in outcomes) or any(one.result.verdict == UNKNOWN for one in left):
        verdict = UNKNOWN
    else:
        verdict = FAILED if left or any(one.error for one in outcomes) else DONE
    return ActResult(verdict, " ".join(sentences))


def _shortened(names: Sequence[str]) -> str:
    return and_list(list(names)) if len(names) <= 8 else f"{', '.join(names[:7])} and {len(names) - 7} more"
