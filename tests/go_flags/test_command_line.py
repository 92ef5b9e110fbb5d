"""Command lines as Go's package `flag` reads them: the forms that scripts which start nsqd use, and their mistakes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_engine.daemon.go_flags.command_line import FlagSet
from queue_engine.daemon.go_flags.flag import Flag, FlagType
from queue_engine.vocabulary.errors import FlagError

WORDS = [
    "--msg-timeout",
    "-snappy",
    "--tls-required",
    "--e2e-percentile=",
    "=",
    "-",
    "--",
    "1h",
    "0x",
    "1__0",
    "٣",
    "-1",
    "\0",
]
FLAGS = FlagSet(
    "nsqd",
    [
        Flag("tcp-address", FlagType.TEXT, "where to listen", "0.0.0.0:4150"),
        Flag("mem-queue-size", FlagType.INT, "messages in memory", "10000"),
        Flag("msg-timeout", FlagType.DURATION, "how long", "1m0s"),
        Flag("snappy", FlagType.BOOL, "compression", "true"),
        Flag("tls-required", FlagType.SWITCH, "true, false or tcp-https"),
        Flag("lookupd-tcp-address", FlagType.TEXTS, "where", config_name="nsqlookupd_tcp_addresses"),
        Flag("e2e-percentile", FlagType.FLOATS, "which", config_name="e2e_percentiles"),
    ],
)


@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("form", [["tcp-address=:1"], ["tcp-address", ":1"]])
def test_a_value_comes_behind_one_dash_or_two_and_an_equals_sign_or_a_space(dashes: str, form: list[str]) -> None:
    assert FLAGS.read([dashes + form[0], *form[1:]]).values == {"tcp-address": ":1"}


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["-snappy"], {"snappy": True}),
        (["--snappy=false"], {"snappy": False}),
        (["--snappy=T"], {"snappy": True}),
        (["--tls-required"], {"tls-required": "true"}),
        (["--tls-required=TCP-HTTPS"], {"tls-required": "tcp-https"}),
        (["--mem-queue-size=0x10"], {"mem-queue-size": 16}),
        (["--mem-queue-size=010"], {"mem-queue-size": 8}),
        (["--mem-queue-size=1_000"], {"mem-queue-size": 1000}),
        (["--mem-queue-size", "-1"], {"mem-queue-size": -1}),
        (["--msg-timeout=1h1.5m250ms"], {"msg-timeout": 3_690_250}),
        (["--msg-timeout=1500µs"], {"msg-timeout": 2}),
        (["--msg-timeout=-1s"], {"msg-timeout": -1000}),
        (["--tcp-address="], {"tcp-address": ""}),
        (["--tcp-address=a=b"], {"tcp-address": "a=b"}),
        (["--tcp-address=a", "--tcp-address=b"], {"tcp-address": "b"}),
        (
            ["--lookupd-tcp-address=a:1", "-lookupd-tcp-address", "b:1,c:1"],
            {"lookupd-tcp-address": ("a:1", "b:1", "c:1")},
        ),
        (["--e2e-percentile=0.99,.5", "--e2e-percentile=1"], {"e2e-percentile": (0.99, 0.5, 1.0)}),
        (["--snappy", "--"], {"snappy": True}),
        ([], {}),
    ],
)
def test_values_are_read_as_go_reads_them(arguments: list[str], values: dict[str, object]) -> None:
    assert FLAGS.read(arguments).values == values


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tcp-adress=x"], "flag provided but not defined: -tcp-adress. Did you mean -tcp-address?"),
        (["--=x"], "bad flag syntax: --=x"),
        (["---tcp-address=x"], "bad flag syntax: ---tcp-address=x"),
        (["--msg-timeout"], "flag needs an argument: -msg-timeout"),
        (["--msg-timeout=60"], 'invalid value "60" for flag -msg-timeout: parse error'),
        (["--mem-queue-size=٣"], 'invalid value "٣" for flag -mem-queue-size: parse error'),
        (["--mem-queue-size=1e3"], 'invalid value "1e3" for flag -mem-queue-size: parse error'),
        (["--mem-queue-size=9223372036854775808"], "for flag -mem-queue-size: value out of range"),
        (["--snappy=yes"], 'invalid boolean value "yes" for -snappy: parse error'),
        (["--e2e-percentile=0.9,"], 'invalid value "0.9," for flag -e2e-percentile: parse error'),
        # Go would drop the rest in silence: "--snappy false" is "--snappy" and everything behind it ignored.
        (["--snappy", "false", "--tcp-address=:1"], "unexpected argument 'false': flags begin with a dash"),
        (["--", "x"], "unexpected argument 'x': flags begin with a dash"),
        (["-"], "unexpected argument '-': flags begin with a dash"),
    ],
)
def test_a_mistake_is_named(arguments: list[str], sentence: str) -> None:
    with pytest.raises(FlagError) as raised:
        FLAGS.read(arguments)
    assert str(raised.value).endswith(sentence)


@pytest.mark.parametrize("flag", ["-h", "--help", "-help"])
def test_help_is_the_usage_in_gos_form(flag: str) -> None:
    assert FLAGS.read([flag, "--nonsense"]).wants_help
    lines = list(FLAGS.usage())
    assert lines[0] == "Usage of nsqd:"
    assert lines[-6:] == [
        "  -tcp-address string",
        '    \twhere to listen (default "0.0.0.0:4150")',
        "  -tls-required value",
        "    \ttrue, false or tcp-https",
        "  -version",
        "    \tprint version string",
    ]
    assert "  -snappy" in lines


def test_version_is_told_apart() -> None:
    assert FLAGS.read(["--version"]).wants_version
    assert not FLAGS.read(["--version=false"]).wants_version


def test_a_flag_is_stronger_than_the_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "nsqd.cfg"
    path.write_text(
        "## as contrib/nsqd.cfg.example has it\n"
        'tcp_address = "0.0.0.0:4150"\nmem_queue_size = 5\nmsg_timeout = "30s"\nsnappy = false\ntls_required = true\n'
        'nsqlookupd_tcp_addresses = [\n    "a:4160",\n    "b:4160"\n]\ne2e_percentiles = [1, 0.99]\nrpc_port = "4250"\n'
        'config = "another"\nversion = true\n'  # of the command line alone
    )
    given = FLAGS.read([f"-config={path}", "--mem-queue-size=7"])
    assert given.values == {
        "tcp-address": "0.0.0.0:4150",
        "mem-queue-size": 7,
        "msg-timeout": 30_000,
        "snappy": False,
        "tls-required": "true",
        "lookupd-tcp-address": ("a:4160", "b:4160"),
        "e2e-percentile": (1.0, 0.99),
    }
    assert given.unknown_keys == ("config", "rpc_port", "version")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("msg_timeout = 30", None),  # milliseconds, as nsqd reads a whole number
        ("msg_timeout = true", "msg_timeout can't be True - invalid value type"),
        ('snappy = "maybe"', "snappy can't be 'maybe' - parse error"),
        ("nsqlookupd_tcp_addresses = [1]", "nsqlookupd_tcp_addresses can't be [1] - invalid value type"),
        ("tcp_address = ", "failed to load config file"),
        ("\x00", "failed to load config file"),
        ("#" * (1 << 20) + "#", "it has more than 1048576 bytes"),
    ],
)
def test_a_configuration_file_that_is_wrong_is_refused(tmp_path: Path, text: str, complaint: str | None) -> None:
    path = tmp_path / "nsqd.cfg"
    path.write_text(text)
    if complaint is None:
        assert FLAGS.read(["--config", str(path)]).values == {"msg-timeout": 30}
        return
    with pytest.raises(FlagError) as raised:
        FLAGS.read(["--config", str(path)])
    assert complaint in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_configuration_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(FlagError, match="failed to load config file /nowhere - No such file or directory"):
        FLAGS.read(["--config=/nowhere"])


def refusal_of(arguments: list[str]) -> str | None:
    try:
        FLAGS.read(arguments)
    except FlagError as exc:
        return str(exc)
    return None


PIECES = st.one_of(st.sampled_from(WORDS), st.text(max_size=6))


@given(st.lists(st.builds("{}{}".format, PIECES, PIECES), max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_arguments_are_read_or_refused_with_a_sentence(arguments: list[str]) -> None:
    assert refusal_of(arguments) != ""


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_configuration_file_is_read_or_refused_with_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "nsqd.cfg"
    path.write_bytes(data)
    refusal = refusal_of(["-config", str(path)])
    assert refusal is None or str(path) in refusal
