"""Java's calls into Python, by which `foreachBatch` runs, prove that they come from Spark's own Java.

PySpark opens a port on loopback for them, and any user of the machine could call the functions behind it. py4j, which
carries the calls, knows tokens for both directions, but PySpark sets only that of the calls to Java, and py4j's Java
drops its token when it gets the number of the port. So both sides get the token here.
"""

from typing import Any

from pyspark.java_gateway import ClientServer, JavaObject, ensure_callback_server_started


def require_token(gateway: Any) -> None:
    """Open the port for Java's calls, which from now on need the token of the calls to Java.

    gateway: of a session. One without a thread of Java's for each of Python's (PYSPARK_PIN_THREAD=false) is left as it
    is.
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
