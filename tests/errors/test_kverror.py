"""An error is a value that prints as one line and as one JSON object, and comes back from it."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.errors import Code, KVError, KVException, code_of, may_retry, properties_of
from kvstate.machines.messages import Failure, Token

words = st.text(max_size=40)
numbers = st.integers(-1, 2**63 - 1)
errors = st.builds(
    KVError,
    st.sampled_from(Code),
    words,
    numbers,
    numbers,
    st.none() | st.builds(Token, numbers, numbers),
    numbers,
    st.booleans(),
    words,
    words,
    words,
    words,
)
FAILURE = Failure(
    2, int(Code.BLOCK_NOT_FOUND), "fetch", "errno", "ENOENT", "FileNotFoundError", "no file\nof that name"
)
ERROR = KVError.of(FAILURE, block=7, generation=3, token=Token(0, 31), attempt=1)


@given(errors)
def test_json_round_trip(error: KVError) -> None:
    text = error.to_json()
    assert "\n" not in text
    assert KVError.from_json(text) == error
    assert KVError.from_json(text.encode()) == error
    assert type(KVError.from_json(text).code) is Code


@given(errors)
def test_one_readable_line(error: KVError) -> None:
    line = str(error)
    assert line.isprintable()
    assert line.startswith(error.code.name)
    assert properties_of(error.code).sentence in line


def test_line() -> None:
    assert str(ERROR) == (
        "BLOCK_NOT_FOUND at fetch, part 31 of incarnation 0 attempt 1, block 7 gen 3: "
        "The tier does not hold the block that its index promised. "
        "[errno ENOENT: FileNotFoundError: no file\\nof that name] Not retryable."
    )
    assert str(KVError(Code.KV_OOM, "", retryable=True)) == (
        "KV_OOM at no known stage: There was no memory for the blocks or for a buffer on their way. Retryable."
    )


def test_json() -> None:
    assert json.loads(ERROR.to_json()) == {
        "code": "BLOCK_NOT_FOUND",
        "number": 2101,
        "stage": "fetch",
        "block": 7,
        "generation": 3,
        "token": [0, 31],
        "attempt": 1,
        "retryable": False,
        "driver": "errno",
        "raw": "ENOENT",
        "type": "FileNotFoundError",
        "message": "no file\nof that name",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"code": "NO_SUCH"}, 'there is no code "NO_SUCH"'),
        ({"number": 2102}, "the number of BLOCK_NOT_FOUND is 2101, not 2102"),
        ({"number": "2101"}, '"number" must be of type int'),
        ({"retryable": 1}, '"retryable" must be of type bool'),
        ({"block": True}, '"block" must be of type int'),
        ({"token": [1]}, '"token" must be two whole numbers'),
        ({"token": [1, "2"]}, '"token" must be two whole numbers'),
        ({"token": "12"}, '"token" must be of type list'),
        ({"stage": None}, '"stage" must be of type str'),
        ({"more": 1}, "expected an object with the keys code, number, stage"),
    ],
)
def test_json_that_is_no_error(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match="not an error as JSON") as caught:
        KVError.from_json(json.dumps(json.loads(ERROR.to_json()) | change))
    assert sentence in str(caught.value)


@given(st.text() | st.binary() | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_rubbish_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="not an error as JSON"):
        KVError.from_json(text)


def test_deep_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not an error as JSON"):
        KVError.from_json("[" * 100_000)


def test_a_value() -> None:
    assert copy.deepcopy(ERROR) == ERROR == pickle.loads(pickle.dumps(ERROR))
    assert len({ERROR, KVError.from_json(ERROR.to_json())}) == 1
    with pytest.raises(AttributeError):
        ERROR.block = 8  # type: ignore[misc]


def test_a_number_that_is_no_code_is_kept() -> None:
    error = KVError.of(Failure(0, 2998, "fetch", "peer", "E7"))
    assert (error.code, error.raw, error.driver, error.retryable) == (Code.UNKNOWN, "code 2998 E7", "peer", False)
    assert KVError.of(Failure(0, -5, "fetch")).raw == "code -5"
    assert code_of(2101) is Code.BLOCK_NOT_FOUND
    assert code_of(0) is Code.UNKNOWN


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("transient", [False, True])
def test_retryable(code: Code, transient: bool) -> None:
    failure = Failure(0, int(code), "fetch", transient=transient)
    has = properties_of(code)
    never = has.condemns or has.fatal or has.outcome == "cancelled"
    assert may_retry(failure) == KVError.of(failure).retryable == (has.retryable or (transient and not never))


def test_exception_carries_the_error() -> None:
    problem = KVException(ERROR)
    assert str(problem) == str(ERROR)
    assert pickle.loads(pickle.dumps(problem)).error == ERROR
    with pytest.raises(KVException, match="BLOCK_NOT_FOUND at fetch"):
        raise problem
