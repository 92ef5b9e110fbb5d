"""`/config/OPTION` of nsqadmin: read any of its options, change the addresses of nsqlookupds and the log level.

Only from the addresses of `--allow-config-from-cidr`, and, other than nsqadmin's, only for an admin. New addresses stay
after a restart, as those of the page Nodes do; a new log level does not.
"""

import ipaddress
import logging
from typing import Any

import orjson
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from admin_console.audit.models import Verdict
from admin_console.audit.record import begin_act, intent_of
from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.options import Addresses
from admin_console.cluster.cluster import Cluster, NotChangedError
from admin_console.gateway.gateway import log_level_setting
from admin_console.nsqadmin.answers import answer, by_method, complaint, plain, too_large
from admin_console.nsqadmin.callers import may_act
from admin_console.nsqadmin.cluster_now import ClusterNow

logger = logging.getLogger(__name__)

VALUE_BYTES_MAX = 1 << 20
_NS = 1_000_000_000
# Those of an nsqadmin without Graphite: their flags have no effect here (management/nsqadmin_flags.py).
_OF_GRAPHITE = {
    "graphite_url": "",
    "proxy_graphite": False,
    "statsd_prefix": "nsq.%s",
    "statsd_counter_format": "stats.counters.%s.count",
    "statsd_gauge_format": "stats.gauges.%s",
    "statsd_interval": 60 * _NS,
}
_LOOKUPDS, _LEVEL = "nsqlookupd_http_addresses", "log_level"


def read(request: HttpRequest, option: str) -> HttpResponse:
    """Its value as it is now."""
    if not _is_allowed(request):
        return complaint("FORBIDDEN", status=403)
    values = _values(ClusterNow().cluster)
    if option not in values:
        return complaint("INVALID_OPTION", status=400)
    value = values[option]
    return plain(value) if isinstance(value, str) and option != _LEVEL else answer(value)


def change(request: HttpRequest, option: str) -> HttpResponse:
    """Put the value of the body into force; the answer is the value that holds."""
    if not _is_allowed(request):
        return complaint("FORBIDDEN", status=403)
    if sentence := too_large(request.body, VALUE_BYTES_MAX):
        return complaint(f"INVALID_VALUE: {sentence}", status=413)
    if not request.body:
        return complaint("INVALID_VALUE", status=413)
    cluster = ClusterNow().cluster
    try:
        if option == _LOOKUPDS:
            # The reader of the nodes takes them in a moment later.
            return answer(_change_lookupds(request, cluster))
        elif option == _LEVEL:
            log_level_setting().change(request.body)
            logger.info("the log level is %s now, by %s", request.body.decode(), request.user)
        else:
            return complaint("INVALID_OPTION", status=400)
    except _AddressesError as exc:
        return complaint(f"INVALID_VALUE: {exc}", status=400)
    except ValueError:
        return complaint("INVALID_VALUE", status=400)
    except (DatabaseError, NotChangedError):
        logger.exception("the addresses of nsqlookupds stay as they were")
        return complaint("INTERNAL_ERROR", status=500)
    return answer(_values(cluster)[option])


class _AddressesError(Exception):
    """Addresses that nsqadmin would take; the text has the first of them, and why not."""


def _change_lookupds(request: HttpRequest, cluster: Cluster) -> list[str]:
    """The addresses that hold. Raises ValueError for another body, _AddressesError, DatabaseError, NotChangedError."""
    texts = orjson.loads(request.body)
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise ValueError("the body is no list of texts")
    nsqds = cluster.addresses.nsqds
    try:
        addresses = Addresses(Addresses.parse(texts, []).lookupds, nsqds)
    except ValueError as exc:
        first, *more = str(exc).splitlines()
        raise _AddressesError(f"{first}{f', and {len(more):,} more' if more else ''}") from exc
    listed = (", ".join(map(str, one)) or "none" for one in (addresses.lookupds, nsqds))
    begun = begin_act(intent_of(request, "set_addresses", detail="nsqlookupds: {}; nodes: {}".format(*listed)[:200]))
    try:
        cluster.change(addresses)
    except NotChangedError as exc:
        begun.finish(Verdict.FAILED, str(exc))
        raise
    begun.finish(Verdict.DONE, f"Changed the addresses over /config/{_LOOKUPDS}.")
    return [str(one) for one in addresses.lookupds]


def _values(cluster: Cluster) -> dict[str, Any]:
    console, options, addresses = settings.CONSOLE, settings.CONSOLE.nsqadmin, cluster.addresses
    calls = console.cluster
    return {
        **_OF_GRAPHITE,
        _LOOKUPDS: [str(one) for one in addresses.lookupds],
        "nsqd_http_addresses": [str(one) for one in addresses.nsqds],
        _LEVEL: log_level_setting().read(),
        "base_path": f"{console.sub_path}/",
        "acl_http_header": options.acl_header,
        "admin_users": sorted(options.admin_users),
        "notification_http_endpoint": options.notified,
        "allow_config_from_cidr": ",".join(map(str, options.config_from or ())),
        "http_address": HttpAddress(console.host, console.port).bare,
        "http_client_connect_timeout": int(calls.connect_timeout_s * _NS),
        "http_client_request_timeout": int(calls.request_timeout_s * _NS),
        "http_client_tls_insecure_skip_verify": not calls.tls.is_checked,
        "http_client_tls_root_ca_file": calls.tls.root_ca_file,
        "http_client_tls_cert": calls.tls.cert,
        "http_client_tls_key": calls.tls.key,
        "log_prefix": "",
        "dev_static_dir": "",
    }


def _is_allowed(request: HttpRequest) -> bool:
    if not may_act(request, ""):
        return False
    networks = settings.CONSOLE.nsqadmin.config_from
    if networks is None:
        return True
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return False
    return any(address in network for network in networks)


configuration = by_method(GET=read, PUT=change)
