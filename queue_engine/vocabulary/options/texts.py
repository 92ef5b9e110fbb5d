"""How options are shown to people: in `serve --help`, and in the tables of READMEs.

A value is shown as a user writes it, with the unit in words where it is a long number of bytes.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from inspect import get_annotations
from typing import Any

from queue_engine.vocabulary.byte_sizes import whole_units
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.option import environment_name_of, flag_of
from queue_engine.vocabulary.options.options import Options, option_groups

BOOLEAN = "true|false"  # the value of a switch


@dataclass(frozen=True, slots=True)
class OptionText:
    """One option. group: the title of its group. value: a placeholder behind the flag, its unit in capitals.
    default, limits: "" for none. is_list: may be given several times."""

    field_name: str
    group: str
    flag: str
    variable: str
    value: str
    default: str
    limits: str
    help: str
    is_list: bool


def engine_option_texts() -> Iterator[OptionText]:
    """All options of the engine, in their order."""
    titles = {name: group.TITLE for group in option_groups() for name in get_annotations(group)}
    for spec in fields(Options):
        yield OptionText(
            spec.name,
            titles[spec.name],
            flag_of(spec.name),
            environment_name_of(spec.name),
            _value(spec),
            "" if spec.default in ("", (), -1) else _shown(spec, spec.default),
            _limits(spec),
            spec.metadata["help"],
            isinstance(spec.default, tuple),
        )


def _is_bytes(spec: Field[Any]) -> bool:
    return "bytes" in spec.name or spec.name in ("max_msg_size", "max_body_size", "max_output_buffer_size")


def _value(spec: Field[Any]) -> str:
    if spec.metadata["choices"]:
        return "|".join(filter(None, spec.metadata["choices"]))
    if spec.name == "auth_http_address":
        return "HOST:PORT|URL"
    if spec.name.endswith("_address"):
        return "HOST" if spec.name == "broadcast_address" else "HOST:PORT"
    if spec.name.endswith("_ms"):
        return "DURATION"
    if isinstance(spec.default, bool):
        return BOOLEAN
    if isinstance(spec.default, int):
        return "BYTES" if _is_bytes(spec) else "PERCENT" if spec.name.endswith("_percent") else "N"
    if spec.type == tuple[float, ...]:
        return "FLOAT"
    if spec.name in ("tls_cert", "tls_key", "tls_root_ca_file", "http_token_file"):
        return "FILE"
    return {
        "data_path": "DIR",
        "lake": "PLACE",
        "allowed_host": "HOST",
        "trusted_proxy": "ADDRESS",
        "http_token": "TOKEN",
    }.get(spec.name, "TEXT")


def _limits(spec: Field[Any]) -> str:
    if spec.metadata["choices"]:
        return ", ".join(filter(None, spec.metadata["choices"]))
    if isinstance(spec.default, bool):
        return "true, false"
    low, high = spec.metadata["low"], spec.metadata["high"]
    if low is None:
        return ""
    if spec.default == low == -1:
        low = 0  # -1 stands for an option that is not given
    return f"{_shown(spec, low)} or more" if high is None else f"{_shown(spec, low)} to {_shown(spec, high)}"


def _shown(spec: Field[Any], value: Any) -> str:
    if spec.name.endswith("_ms"):
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    if _is_bytes(spec) and (in_units := whole_units(value)):
        return f"{value} = {in_units}"
    return str(value)
