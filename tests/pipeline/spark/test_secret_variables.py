"""Secrets of the server's environment do not reach the pipeline's processes."""

import pytest

from queue_engine.lake.spark.secret_variables import take_token, without_secrets

SECRETS = [
    "PENSTOCK_HTTP_TOKEN",
    "PENSTOCK_ADMIN_PASSWORD",
    "DJANGO_SECRET_KEY",
    "SECRET_KEY",
    "PGPASSWORD",
    "github_token",
    "MAIL_API_KEY",
]
# What Java, Spark, the pipeline's own options and the lake's object store need.
INHERITED = [
    "PATH",
    "JAVA_HOME",
    "PENSTOCK_SPARK_MASTER",
    "PENSTOCK_ADMIN_USER",
    "PYSPARK_GATEWAY_SECRET",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_not_inherited(name: str) -> None:
    assert without_secrets({name: "hush", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_all_else_is_inherited() -> None:
    environment = dict.fromkeys(INHERITED, "value")
    assert without_secrets(environment) == environment


def test_the_token_is_taken_out_of_the_environment_with_all_secrets() -> None:
    environment = dict.fromkeys([*SECRETS, *INHERITED], "value") | {"PENSTOCK_HTTP_TOKEN": "the token"}
    assert take_token(environment) == "the token"
    assert environment == dict.fromkeys(INHERITED, "value")


def test_without_a_token_it_is_empty() -> None:
    assert take_token({}) == ""
