"""Raw codes: right where a table knows them, UNKNOWN and kept where none does."""

from __future__ import annotations

import enum
import errno
import http

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.errors import Code, translate
from kvstate.errors.codes import PROPERTIES, STAGES, TRANSLATIONS
from kvstate.errors.text import clean


class CudaError(enum.IntEnum):
    """As CUDA's own bindings have it."""

    cudaErrorMemoryAllocation = 2  # noqa: N815, its own name


@pytest.mark.parametrize("driver", sorted(TRANSLATIONS))
@pytest.mark.parametrize("stage", STAGES)
def test_a_translation_holds_at_its_stages_only(driver: str, stage: str) -> None:
    for raw, code in TRANSLATIONS[driver].items():
        found = translate(driver, raw, stage=stage, line=3)
        expected = code if stage in PROPERTIES[code].stages else Code.UNKNOWN
        assert (found.code, found.raw, found.driver, found.stage, found.line) == (expected, raw, driver, stage, 3)


@given(st.sampled_from([*sorted(TRANSLATIONS), "other"]), st.text() | st.integers(-(2**63), 2**64 - 1))
def test_what_no_table_knows_is_unknown_and_kept(driver: str, raw: str | int) -> None:
    found = translate(driver, raw, stage="fetch")
    spelled = errno.errorcode.get(raw, str(raw)) if driver == "errno" and isinstance(raw, int) else str(raw)
    if spelled not in TRANSLATIONS.get(driver, {}):
        assert found.code == Code.UNKNOWN
        assert found.raw == clean(spelled, 200)


@pytest.mark.parametrize(
    ("driver", "raw", "stage", "code", "kept"),
    [
        ("errno", errno.ENOENT, "fetch", Code.BLOCK_NOT_FOUND, "ENOENT"),
        ("errno", errno.ENOENT, "write", Code.UNKNOWN, "ENOENT"),
        ("errno", errno.EIO, "fetch", Code.UNKNOWN, "EIO"),
        ("errno", 12345, "fetch", Code.UNKNOWN, "12345"),
        ("http", http.HTTPStatus.NOT_FOUND, "fetch", Code.BLOCK_NOT_FOUND, "404"),
        ("http", "404", "fetch", Code.BLOCK_NOT_FOUND, "404"),
        ("http", 404.0, "fetch", Code.UNKNOWN, "404.0"),
        ("http", "404 ", "fetch", Code.UNKNOWN, "404 "),
        ("http", b"404", "fetch", Code.UNKNOWN, "b'404'"),
        ("http", None, "fetch", Code.UNKNOWN, ""),
        ("http", True, "fetch", Code.UNKNOWN, "True"),
        ("http", 412, "commit", Code.SLOT_CONFLICT, "412"),
        ("http", 412, "fetch", Code.UNKNOWN, "412"),
        ("cuda", CudaError.cudaErrorMemoryAllocation, "reserve", Code.KV_OOM, "2"),
        ("cuda", 600, "fetch", Code.UNKNOWN, "600"),
        ("cuda", 700, "write", Code.DEVICE_ERROR, "700"),
        ("raw", 404, "fetch", Code.BLOCK_NOT_FOUND, "404"),
        ("raw", 1001, "fetch", Code.CRC_MISMATCH, "1001"),
        ("raw", 507, "fetch", Code.KV_OOM, "507"),
        ("raw", 504, "store", Code.LOAD_TIMEOUT, "504"),
        ("raw", 1002, "fetch", Code.UNKNOWN, "1002"),
        ("nobody", 404, "fetch", Code.UNKNOWN, "404"),
        ("raw", 404, "elsewhere", Code.UNKNOWN, "404"),
    ],
)
def test_raw_codes(driver: str, raw: object, stage: str, code: Code, kept: str) -> None:
    found = translate(driver, raw, stage=stage)
    assert (found.code, found.raw, found.stage, found.transient) == (code, kept, stage, False)


def test_transient() -> None:
    assert translate("errno", errno.EAGAIN, stage="fetch").transient
    assert translate("http", 500, stage="fetch")[1:] == (Code.UNKNOWN, "fetch", "http", "500", "", "", True)
    assert translate("disk", "odd", stage="fetch", transient=True).transient
    for raw in ("ENOENT", "ECANCELED"):
        assert not translate("errno", raw, stage="fetch", transient=True).transient
    assert not translate("cuda", 700, stage="fetch", transient=True).transient


def test_lines() -> None:
    assert [translate("errno", 2, stage="fetch", line=line).line for line in (0, 7, -1, -2, 2**31)] == [
        0,
        7,
        -1,
        -1,
        -1,
    ]
