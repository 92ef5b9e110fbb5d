"""The ports of a session's Java refuse every request without the secret, which only Java has."""

import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.pipeline.spark.spark_wire import RPC_FAILURE, Stranger

LARGE_BYTES = 3 << 20  # more than a task's answer may have: it waits in the block manager, and is fetched there

pytestmark = [pytest.mark.slow(reason="runs Spark"), pytest.mark.spark]


def jvm_of(spark: SparkSession) -> Any:
    return spark._jvm


def driver_port(spark: SparkSession) -> int:
    return int(spark.sparkContext.getConf().get("spark.driver.port") or 0)


def block_port(spark: SparkSession) -> int:
    java: Any = spark.sparkContext._jsc
    (address,) = str(java.sc().getExecutorMemoryStatus().keys().mkString(",")).split(",")
    return int(address.rpartition(":")[2])


def question(spark: SparkSession, endpoint: str) -> bytes:
    """Whether the driver has an endpoint, as Spark itself asks that before it speaks to one."""
    java = jvm_of(spark).java
    arguments = spark.sparkContext._gateway.new_array(java.lang.Object, 1)
    arguments[0] = endpoint
    asked = java.lang.Class.forName("org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence")
    buffer = java.io.ByteArrayOutputStream()
    stream = java.io.ObjectOutputStream(buffer)
    stream.writeObject(asked.getConstructors()[0].newInstance(arguments))
    stream.flush()
    return bytes(buffer.toByteArray())


def test_the_driver_answers_no_stranger(spark: SparkSession) -> None:
    port = driver_port(spark)
    with Stranger(port) as stranger:
        kind, answer = stranger.ask("endpoint-verifier", port, question(spark, "HeartbeatReceiver"))
    assert kind in (RPC_FAILURE, -1), answer


def test_the_block_manager_gives_no_stranger_a_block(spark: SparkSession) -> None:
    context = spark.sparkContext
    sent: Any = context.broadcast(b"not for strangers")
    with Stranger(block_port(spark)) as stranger:
        kind, answer = stranger.block(context.applicationId, f"broadcast_{sent._jbroadcast.id()}_piece0")
    assert kind in (RPC_FAILURE, -1), answer
    assert b"not for strangers" not in answer


def test_spark_itself_gets_its_blocks(spark: SparkSession) -> None:
    ((text,),) = spark.range(1).select(f.repeat(f.lit("x"), LARGE_BYTES)).collect()
    assert len(text) == LARGE_BYTES


def test_the_secret_is_in_no_command_line_and_no_environment(spark: SparkSession) -> None:
    hadoop = jvm_of(spark).org.apache.hadoop
    credentials = hadoop.security.UserGroupInformation.getCurrentUser().getCredentials()
    secret = bytes(credentials.getSecretKey(hadoop.io.Text("sparkCookie")))
    assert len(secret) >= 32
    gateway: Any = spark.sparkContext._gateway
    for name in ("cmdline", "environ"):
        assert secret not in Path(f"/proc/{gateway.proc.pid}/{name}").read_bytes()
    assert spark.sparkContext.getConf().get("spark.authenticate.secret") is None


def test_no_stranger_calls_a_function_of_pythons(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), 20) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        try:
            answer = stranger.recv(1000)
        except ConnectionResetError:
            answer = b""
    assert answer == b""


def test_there_is_no_page(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None


def test_java_has_room_for_what_it_compiles_in_a_long_life(spark: SparkSession) -> None:
    """With the default for one compiler, 48 MB, a worker ends once it has run enough different queries."""
    arguments = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert "-XX:ReservedCodeCacheSize=240m" in list(arguments)
