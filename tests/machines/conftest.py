"""The shipped spec, each of its machines as a parameter, and one of odd habits, for what the shipped ones avoid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvstate.spec.loader import load_machine, load_spec
from kvstate.spec.model import Machine, Spec
from tests.machines.rig import Rig

SPEC = load_spec()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" in metafunc.fixturenames:
        metafunc.parametrize("machine", SPEC.machines, ids=[machine.name for machine in SPEC.machines])


@pytest.fixture(scope="session")
def spec() -> Spec:
    return SPEC


@pytest.fixture(scope="session")
def block() -> Machine:
    return SPEC.machine("block")


@pytest.fixture(scope="session")
def odd() -> Machine:
    return load_machine(Path(__file__).with_name("odd.toml"), check=False)


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    """Makes ledgers to be driven by hand; in the end each has to balance."""
    made: list[Rig] = []

    def make(*args: Any, **options: Any) -> Rig:
        made.append(Rig(*args, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.check()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()
