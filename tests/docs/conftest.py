"""One process for the commands of all pages, where they are played."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.files import ROOT


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that carries commands out, and has imported all that they need."""
    path = tmp_path_factory.mktemp("prefork") / "socket"
    command = [sys.executable, "-m", "tests.docs.prefork", "serve", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield path
        server.kill()
