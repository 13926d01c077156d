"""Every line of docs/reliability.md about an object store is what comes of its fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.objects.conftest import NEEDS
from tests.objects.server import ENVIRONMENT, S3Server, program
from tests.reliability.page import PAGE
from tests.reliability.stores import CASES, StoreCase, run, store_line

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if program() is None:
        pytest.skip(NEEDS)
    with S3Server(tmp_path_factory.mktemp("s3")) as one:
        yield one


def test_there_are_faults_of_every_stage() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 25
    assert {(case.does, case.stage) for case in CASES} >= {
        ("store", "write"), ("store", "commit"), ("load", "fetch"), ("seek", "lookup"),
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_comes_of_it(case: StoreCase, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    found = run(case, server)
    assert found.goes_on, "another store and load went wrong afterwards"
    assert found.bystander, "something else was hit by it"
    assert found.left == (), "blocks are held by nobody"
    assert "| " + " | ".join(store_line(case, found)) + " |" in TEXT, "run python -m tests.reliability.page, and look"
