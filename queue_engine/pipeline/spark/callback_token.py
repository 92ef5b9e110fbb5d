"""Makes Java's calls into Python, by which `foreachBatch` runs, prove that they come from Spark's own Java.

PySpark opens a port on loopback for these calls, and any user of the machine could call the functions behind it. py4j,
which carries the calls, has a token for each direction, but PySpark sets only the one of calls to Java, and py4j's Java
drops its token when it gets the port's number. So this module sets the token on both sides.
"""

from typing import Any

from pyspark.java_gateway import ClientServer, JavaObject, ensure_callback_server_started


def require_token(gateway: Any) -> None:
    """Open the port for Java's calls; from now on they need the token of the calls to Java.

    gateway: the session's. A gateway without pinned threads (PYSPARK_PIN_THREAD=false) stays as it is.
    """
    if not isinstance(gateway, ClientServer) or gateway.python_parameters.auth_token:
        return
    token = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)
    caller = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(caller, token)
