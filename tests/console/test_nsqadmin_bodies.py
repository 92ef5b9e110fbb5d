"""Bodies as Go reads them. The sentences are those of nsqadmin 1.3.0 for the same bodies."""

import pytest

from admin_console.nsqadmin.go_json import DEPTH_MAX, GoJsonError, texts_in

STRUCT = 'struct { Topic string "json:\\"topic\\""; Channel string "json:\\"channel\\"" }'
REFUSED = [
    (b"", "EOF"),
    (b" \n", "EOF"),
    (b"{", "unexpected EOF"),
    (b'{"topic":"orders"', "unexpected EOF"),
    (b"[1", "unexpected EOF"),
    (b"nul", "unexpected EOF"),
    (b"-", "unexpected EOF"),
    (b"[]", f"json: cannot unmarshal array into Go value of type {STRUCT}"),
    (b'"x"', f"json: cannot unmarshal string into Go value of type {STRUCT}"),
    (b"true", f"json: cannot unmarshal bool into Go value of type {STRUCT}"),
    (b"1e400", f"json: cannot unmarshal number into Go value of type {STRUCT}"),
    (b'{"topic":1}', "json: cannot unmarshal number into Go struct field .topic of type string"),
    (b'{"topic":"a","CHANNEL":["b"]}', "json: cannot unmarshal array into Go struct field .channel of type string"),
    (b'{"topic":{}} trailing', "json: cannot unmarshal object into Go struct field .topic of type string"),
    (b"nonsense", "invalid character 'o' in literal null (expecting 'u')"),
    (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
    (b"topic=orders", "invalid character 'o' in literal true (expecting 'r')"),
    (b"action=pause", "invalid character 'a' looking for beginning of value"),
    (b"\xff", "invalid character '\u00ff' looking for beginning of value"),
    (b"{'topic':'a'}", "invalid character '\\'' looking for beginning of object key string"),
    (b'{"topic":"a",}', "invalid character '}' looking for beginning of object key string"),
    (b'{"topic" "a"}', "invalid character '\"' after object key"),
    (b'{"topic":"a" "b"}', "invalid character '\"' after object key:value pair"),
    (b"[1 2]", "invalid character '2' after array element"),
    (b'{"topic":"a\nb"}', "invalid character '\\n' in string literal"),
    (b'{"topic":"\\q"}', "invalid character 'q' in string escape code"),
    (b'{"topic":"\\u00g0"}', "invalid character 'g' in \\u hexadecimal character escape"),
    (b"-a", "invalid character 'a' in numeric literal"),
    (b"[1.]", "invalid character ']' after decimal point in numeric literal"),
    (b"[1e+]", "invalid character ']' in exponent of numeric literal"),
    (b"[1.5.]", "invalid character '.' after array element"),
    (b"[" * (DEPTH_MAX + 1), "exceeded max depth"),
]
READ = [
    (b'{"topic":"a","channel":"b"}', ["a", "b"]),
    (b' {"Topic":"a","CHANNEL":null, "other":[{"x":-1.5e+3}]} trailing', ["a", ""]),
    (b'{"topic":"a","n":1e400}', ["a", ""]),
    (b'{"topic":"a\xff"} ', ["a\ufffd", ""]),
    (b"null", ["", ""]),
    (b"null {", ["", ""]),
    (b'{"a":[],"b":{},"topic":"\\u00e9\\n"}{', ["\u00e9\n", ""]),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED)
def test_a_body_that_is_wrong_costs_gos_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(GoJsonError) as refused:
        texts_in(body, ("topic", "channel"))
    assert str(refused.value) == sentence


@pytest.mark.parametrize(("body", "texts"), READ)
def test_a_body_is_read_as_go_reads_it(body: bytes, texts: list[str]) -> None:
    assert list(texts_in(body, ("topic", "channel")).values()) == texts
