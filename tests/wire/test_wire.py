"""Messages: one encoding, exact sizes, and nothing hostile gets through."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from drfl.wire import (
    Failure,
    Field,
    Message,
    Sent,
    Tally,
    WireError,
    decode,
    encode,
    reply_kind,
    validate,
    validate_arrays,
)
from drfl.wire.message import DTYPES, MAX_ARRAYS
from drfl.wire.schema import pack_triangle, semidefinite, unpack_triangle

names = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True)
kinds = st.from_regex(r"[a-z_][a-z0-9_]{0,9}(/[a-z_][a-z0-9_]{0,9})?", fullmatch=True)
arrays = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)
messages = st.builds(
    Message, kinds, st.integers(0, 2**31 - 1), st.dictionaries(names, arrays, max_size=5)
)


@given(messages)
def test_round_trip_is_bit_for_bit(message):
    data = encode(message)
    again = decode(data)
    assert len(data) == message.nbytes == again.nbytes
    assert (again.kind, again.round, list(again.arrays)) == (
        message.kind,
        message.round,
        sorted(message.arrays),
    )
    for name, array in message.arrays.items():
        assert again.arrays[name].dtype == array.dtype
        assert again.arrays[name].shape == array.shape
        assert again.arrays[name].tobytes() == array.tobytes()
    assert again == message
    assert hash(again) == hash(message)


def test_the_format_is_the_documented_one():
    message = Message("evaluate", 3, {"w": np.array([1.0, -2.0]), "k": np.array(5)})
    expected = b"drfl1 evaluate 3 k:q w:d2\n"
    expected += bytes.fromhex("0500000000000000 000000000000f03f 00000000000000c0")
    assert encode(message) == expected
    letters = {name: np.zeros((1, 2), name) for name in DTYPES}
    header = encode(Message("a/b", 0, letters)).partition(b"\n")[0]
    assert header == b"drfl1 a/b 0 float16:e1,2 float32:f1,2 float64:d1,2 int64:q1,2 uint8:B1,2"


def test_equality_is_of_bits():
    zero, nan = Message("a", 0, {"x": np.array(0.0)}), Message("a", 0, {"x": np.array(math.nan)})
    assert zero != Message("a", 0, {"x": np.array(-0.0)})
    assert nan == Message("a", 0, {"x": np.array(math.nan)})
    assert zero != Message("a", 1, {"x": np.array(0.0)})
    assert zero != "a"


def test_a_message_is_a_copy_that_nobody_can_change():
    w = np.zeros(3)
    message = Message("a", 0, {"w": w})
    w[0] = 1.0
    assert message.arrays["w"][0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        message.arrays["w"][0] = 1.0
    with pytest.raises(TypeError):
        message.arrays["v"] = w
    with pytest.raises(AttributeError):
        message.round = 1
    decoded = decode(encode(message)).arrays["w"]
    assert not decoded.flags.writeable
    assert decoded.flags.aligned


def test_any_memory_order_and_byte_order_is_taken():
    a = np.arange(6.0).reshape(2, 3)
    plain = Message("a", 0, {"a": a})
    assert Message("a", 0, {"a": np.asfortranarray(a)}) == plain
    assert Message("a", 0, {"a": a.astype(">f8")}) == plain
    assert Message("a", 0, {"a": np.repeat(a, 2, axis=1)[:, ::2]}) == plain


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"kind": "Evaluate"}, "kind"),
        ({"kind": "a/b/c"}, "kind"),
        ({"kind": "a b"}, "kind"),
        ({"kind": "a\n"}, "kind"),
        ({"kind": "a" * 65}, "kind"),
        ({"kind": 3}, "kind"),
        ({"round": -1}, "round"),
        ({"round": 2**31}, "round"),
        ({"round": 1.0}, "round"),
        ({"round": True}, "round"),
        ({"arrays": [np.zeros(1)]}, "mapping"),
        ({"arrays": {f"a{k}": np.zeros(1) for k in range(MAX_ARRAYS + 1)}}, "at most 256"),
        ({"arrays": {"W": np.zeros(1)}}, "name"),
        ({"arrays": {"w x": np.zeros(1)}}, "name"),
        ({"arrays": {1: np.zeros(1)}}, "name"),
        ({"arrays": {"w": np.zeros(1, bool)}}, "type bool"),
        ({"arrays": {"w": np.zeros(1, complex)}}, "type complex128"),
        ({"arrays": {"w": np.zeros(1, np.int32)}}, "type int32"),
        ({"arrays": {"w": np.array([{}], object)}}, "type object"),
        ({"arrays": {"w": "text"}}, "type str"),
        ({"arrays": {"w": [[1.0], [1.0, 2.0]]}}, "not an array"),
        ({"arrays": {"w": np.zeros((1, 1, 1, 1))}}, "shape"),
        ({"arrays": {"w": np.empty((0, 2**31), np.uint8)}}, "shape"),
        ({"arrays": {f"w{k}": np.broadcast_to(0.0, 2**24) for k in range(9)}}, "at most"),
    ],
)
def test_bad_messages_are_refused(bad, why):
    with pytest.raises(WireError, match=why) as refused:
        Message(**({"kind": "a", "round": 0, "arrays": {}} | bad))
    assert len(str(refused.value)) < 200


GOOD = encode(Message("evaluate", 7, {"w": np.arange(3.0), "k": np.array([1, 2])}))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a drfl message"),
        (b"drfl", "not a drfl message"),
        (b"\x80\x04\x95pickle", "not a drfl message"),
        (b"drfl2 evaluate 0\n", "version 2"),
        (b"drfl01 evaluate 0\n", "agreed form"),
        (b"drfl1 evaluate 0", "cut off"),
        (b"drfl1 " + b"a" * 70_000 + b"\n", "header is too long"),
        (b"drfl1 \n", "kind, a round"),
        (b"drfl1 evaluate\n", "kind, a round"),
        (b"drfl1 evaluate -1\n", "kind, a round"),
        (b"drfl1 evaluate 00\n", "agreed form"),
        (b"drfl1 evaluate 9999999999\n", "round"),
        (b"drfl1 Evaluate 0\n", "kind"),
        (b"drfl1 ../../x 0\n", "kind"),
        (b"drfl1 evaluate 0 \n", "kind, a round"),
        (b"drfl1 evaluate 0 w\n", "name, type and shape"),
        (b"drfl1 evaluate 0 w:O1\n", "name, type and shape"),
        (b"drfl1 evaluate 0 w:l1\n12345678", "name, type and shape"),
        (b"drfl1 evaluate 0 w:d1,\n", "name, type and shape"),
        (b"drfl1 evaluate 0 w:d-1\n", "name, type and shape"),
        (b"drfl1 evaluate 0 w:B1,1,1,1\nx", "too large"),
        (b"drfl1 evaluate 0 w:d9999999999\n", "too large"),
        (b"drfl1 evaluate 0 w:d0,9999999999\n", "too large"),
        (b"drfl1 evaluate 0 w:d1000000000\n", "cut off"),
        (b"drfl1 evaluate 0 w:d1\n1234567", "cut off"),
        (b"drfl1 evaluate 0 w:d1\n123456789", "1 bytes too many"),
        (b"drfl1 evaluate 0\n ", "1 bytes too many"),
        (b"drfl1 evaluate 0 w:B01\nx", "agreed form"),
        (b"drfl1 evaluate 0 w:B1 a:B1\nxy", "agreed form"),
        (b"drfl1 evaluate 0 w:B1 w:B1\nxy", "agreed form"),
        (b"drfl1 evaluate 0 W:B1\nx", "name"),
        (b"drfl1 evaluate\t0 0\n", "kind"),
        (b"drfl1 evaluate 0 w\xff:B1\nx", "name, type and shape"),
        (bytearray(GOOD), "comes as bytes"),
        ("drfl1 evaluate 0\n", "comes as bytes"),
        (None, "comes as bytes"),
    ],
)
def test_hostile_bytes_are_refused(data, why):
    with pytest.raises(WireError, match=why) as refused:
        decode(data)
    assert len(str(refused.value)) < 200


def accepted_only_as_written(data):
    """Either WireError, or a message whose one encoding these bytes are."""
    try:
        message = decode(data)
    except WireError:
        return
    assert encode(message) == data


@given(st.binary(max_size=60), st.sampled_from([b"", b"drfl1 ", b"drfl1 a 0 ", b"drfl1 a 0 w:d"]))
def test_random_bytes_never_break_the_decoder(data, start):
    accepted_only_as_written(start + data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.booleans())
def test_damaged_messages_never_break_the_decoder(at, byte, insert):
    accepted_only_as_written(GOOD[:at] + bytes([byte]) + GOOD[at + (not insert) :])


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_truncated_messages_are_refused(size):
    with pytest.raises(WireError):
        decode(GOOD[:size])


@given(st.text("0123456789,:deqfB abc_\n", max_size=40))
def test_any_header_line_is_read_or_refused(line):
    accepted_only_as_written(f"drfl1 a 0 {line}\n".encode() + bytes(16))


# ---------------------------------------------------------------------------- failures
@pytest.mark.parametrize("failure", Failure)
def test_a_failure_travels_as_a_code_without_arrays(failure):
    message = decode(encode(failure.message(4)))
    assert Failure.of(message) is failure
    assert (message.round, dict(message.arrays)) == (4, {})
    assert failure.sentence
    assert "  " not in failure.sentence


def test_other_messages_are_no_failures():
    assert Failure.of(Message("evaluate/reply", 0)) is None
    assert Failure.of(Message("failures/error", 0)) is None
    assert Failure.of(Message("failure/invented_by_a_peer", 0)) is Failure.BAD_REPLY


# ---------------------------------------------------------------------------- schemas
SCHEMA = {
    "value": Field("float64"),
    "slope": Field("float64", ("n",)),
    "cuts": Field("float32", ("K", "n"), optional=True),
    "more": Field("int64", (2, None), optional=True),
    "bound": Field("float64", ("K",), finite=False, optional=True),
}


def reply(**changes):
    content = {"value": np.array(1.0), "slope": np.ones(3)} | changes
    return Message("evaluate/reply", 2, {k: v for k, v in content.items() if v is not None})


def test_validate_binds_the_symbols_it_was_not_given():
    cuts = np.ones((4, 3), np.float32)
    message = reply(cuts=cuts, bound=np.full(4, math.inf), more=np.ones((2, 9), np.int64))
    assert validate(message, reply_kind("evaluate"), 2, SCHEMA, {"n": 3}) == {"n": 3, "K": 4}
    assert validate(message, "evaluate/reply", None, SCHEMA, {}) == {"n": 3, "K": 4}
    assert validate_arrays(reply().arrays, SCHEMA, {"d": 7}) == {"d": 7, "n": 3}


def test_validate_does_not_change_the_sizes():
    sizes = {}
    validate(reply(), "evaluate/reply", 2, SCHEMA, sizes)
    assert sizes == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"value": None}, "'value' is missing"),
        ({"extra": np.ones(1)}, "'extra' was not expected"),
        ({"value": np.float32(1.0)}, "'value' must be float64, got float32"),
        ({"value": np.ones(1)}, r"'value' must have shape \(\), got \(1,\)"),
        ({"slope": np.ones(4)}, r"'slope' must have shape \(3\), got \(4,\)"),
        ({"slope": np.ones((3, 1))}, "'slope' must have shape"),
        ({"slope": np.array([1.0, math.nan, 0.0])}, "'slope' has NaN or infinite"),
        ({"value": np.array(math.inf)}, "'value' has NaN or infinite"),
        ({"cuts": np.ones((2, 4), np.float32)}, r"'cuts' must have shape \(2, 3\)"),
        ({"cuts": np.ones(3, np.float32)}, r"'cuts' must have shape \(K, 3\), got \(3,\)"),
        ({"more": np.ones((3, 1), np.int64)}, r"'more' must have shape \(2, any\), got \(3, 1\)"),
        ({"cuts": np.ones((2, 3), np.float32), "bound": np.ones(3)}, "'bound' must have shape"),
    ],
)
def test_validate_refuses(changes, why):
    with pytest.raises(WireError, match=why):
        validate(reply(**changes), "evaluate/reply", 2, SCHEMA, {"n": 3})


def test_validate_refuses_another_kind_or_round():
    with pytest.raises(WireError, match="kind 'evaluate/reply', got 'solve/reply'"):
        validate(Message("solve/reply", 2), "evaluate/reply", 2, {}, {})
    with pytest.raises(WireError, match="round 3, got one of round 2"):
        validate(reply(), "evaluate/reply", 3, SCHEMA, {})


def test_a_field_knows_its_types():
    with pytest.raises(ValueError, match="not 'bool'"):
        Field("bool")


def test_a_tally_counts_by_client_and_kind():
    number = np.array(1.0)
    small, large = (Message("a/reply", 0, {"x": np.zeros((k, 2)), "n": number}) for k in (1, 3))
    other = Message("b/reply", 1)
    tally = Tally()
    tally.add({"north": large, "south": other})
    tally.add({"north": small})
    both = Sent("north", "a/reply", 2, small.nbytes + large.nbytes, {"n": (), "x": (3, 2)})
    assert tally.sent == (both, Sent("south", "b/reply", 1, other.nbytes, {}))
    tally.extend(tally.sent)
    assert [entry.count for entry in tally.sent] == [4, 2]
    assert tally.sent[0].bytes == 2 * both.bytes


@pytest.mark.parametrize("size", [1e-42, 1e-36, 1.0])
def test_what_float32_does_to_a_semidefinite_matrix_is_allowed(size):
    X = np.random.default_rng(0).normal(size=(20, 300))
    H = unpack_triangle(pack_triangle(size * X.T @ X / 20).astype(np.float64), 300)
    assert semidefinite(H[None]).all()
    assert not semidefinite(-H[None]).any()
