"""The addresses that the console calls: an act of the page Nodes."""

from typing import Any

from django.urls import reverse

from admin_console.cluster.calls.options import Addresses
from admin_console.cluster.cluster import Cluster, NotChangedError, get_cluster
from admin_console.gateway.gateway import DONE, FAILED, ActResult
from admin_console.views.act_page import ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.question import Field, Question
from admin_console.vocabulary import units


class SetAddresses(ActPage):
    """Which nsqlookupds and nodes the console calls, from now on."""

    routes = {"set_addresses": "nodes/~addresses/"}

    @property
    def page_url(self) -> str:
        return reverse("nodes")

    @property
    def name(self) -> str:
        return "the addresses of nodes"

    @property
    def cluster(self) -> Cluster:
        """Raises NotThereError."""
        cluster = get_cluster()
        if cluster is None:
            raise NotThereError("The console reads no nodes yet: it is starting or stopping.")
        return cluster

    def question(self) -> Question:
        addresses = self.cluster.state.addresses
        posted = self.request.POST
        lookupds = "\n".join(map(str, addresses.lookupds))
        nsqds = "\n".join(map(str, addresses.nsqds))
        return self.pose(
            "Change the addresses of nodes",
            [
                "The console calls these addresses from now on, also after a restart.",
                "A start with other values of --lookupd-http-address or --nsqd-http-address replaces them.",
                "Nodes themselves, their messages and their consumers are not touched.",
            ],
            [
                Field(
                    "lookupds",
                    "nsqlookupds",
                    kind="area",
                    rows=4,
                    value=posted.get("lookupds", lookupds),
                    help="HTTP addresses, one a line, such as lookup-a:4161. All nodes that they name are shown.",
                ),
                Field(
                    "nsqds",
                    "Nodes",
                    kind="area",
                    rows=4,
                    value=posted.get("nsqds", nsqds),
                    help="HTTP addresses of nodes that no nsqlookupd names, one a line, such as nsq-a:4151.",
                ),
            ],
            button="Change addresses",
        )

    def details(self) -> dict[str, Any]:
        texts = [self.request.POST.get(name, "").replace(",", " ").split() for name in ("lookupds", "nsqds")]
        try:
            return {"addresses": Addresses.parse(*texts)}
        except ValueError as exc:
            raise ComplaintError(*(f"{line}. Nothing was changed." for line in str(exc).splitlines()[:10])) from exc

    def audit_detail(self, details: dict[str, Any]) -> str:
        addresses: Addresses = details["addresses"]
        listed = (", ".join(map(str, one)) or "none" for one in (addresses.lookupds, addresses.nsqds))
        return "nsqlookupds: {}; nodes: {}".format(*listed)[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._change(details["addresses"]))

    def _change(self, addresses: Addresses) -> ActResult:
        try:
            self.cluster.change(addresses)
        except NotChangedError as exc:
            return ActResult(FAILED, str(exc))
        lookupds = units.plural(len(addresses.lookupds), "nsqlookupd")
        nodes = units.plural(len(addresses.nsqds), "node")
        return ActResult(DONE, f"Changed the addresses: the console now calls {lookupds} and {nodes}.")
