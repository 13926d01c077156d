"""Which transports the tests run over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.transport.harness import Host, has_nixl

KINDS = ("gloo", "nixl", "nixl-tcp")
"""NIXL twice: where UCX reads the other process's memory by itself, a peer that is stopped stops nothing; over TCP the
peer takes part, as it does between two machines without RDMA."""


def _use(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if not kind.startswith("nixl"):
        return kind
    monkeypatch.setenv("UCX_LOG_LEVEL", "fatal")  # it warns of what a teardown leaves, which is what is tested
    if not has_nixl():
        pytest.skip("NIXL is not installed, or does not run here; see docs/distributed.md")
    if kind == "nixl-tcp":
        monkeypatch.setenv("UCX_TLS", "tcp")
    return "nixl"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transport, as `harness.make` knows it."""
    return _use(request.param, monkeypatch)


@pytest.fixture(params=("gloo", "nixl-tcp"))
def slow_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One whose pulls need the peer's help, and so can be stopped in the middle."""
    return _use(request.param, monkeypatch)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A process for peers that nobody kills."""
    made = Host()
    yield made
    made.kill()


@pytest.fixture
def mortal() -> Iterator[Host]:
    """A process for peers that are killed and stopped."""
    made = Host()
    yield made
    made.kill()
