"""Pages and sockets, as Daphne gets them. Importing this starts nothing."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "admin_console.settings")

from django.core.asgi import get_asgi_application

# Django has to be set up before anything that imports models.
_pages = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from admin_console.live.consumers import websocket_urlpatterns  # noqa: E402
from admin_console.permissions.table import SOCKETS  # noqa: E402
from admin_console.security.cluster_prefix import ClusterSockets  # noqa: E402
from admin_console.security.origin import SameOriginSockets  # noqa: E402
from admin_console.security.proxy import TrustedProxies  # noqa: E402
from admin_console.security.sub_path import SubPath  # noqa: E402

application = TrustedProxies(
    SubPath(
        ProtocolTypeRouter(
            {
                "http": _pages,
                "websocket": ClusterSockets(
                    SameOriginSockets(
                        URLRouter(websocket_urlpatterns),
                        paths=SOCKETS,
                        origin=settings.CONSOLE.origin,
                        speaks_tls=settings.CONSOLE.speaks_tls,
                        allowed_hosts=settings.ALLOWED_HOSTS,
                    )
                ),
            }
        ),
        settings.CONSOLE.sub_path,
    ),
    settings.CONSOLE.trusted_proxies,
    settings.CONSOLE.nsqadmin.acl_header,
)
