"""A real S3 server (SeaweedFS) in a process of its own, on free ports of the loopback, in a folder for temporary files.

It can be killed, stopped in the middle of whatever it does, and started again over the same data.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

BUCKET = "kvstate-test"
KEY, SECRET = "testkey", "testsecret"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
"""What a process needs to be let in."""
READY_SECONDS = 60.0
"""It takes one; on a machine that has other things to do, more."""
NAMES = ("master", "master.port.grpc", "volume", "volume.port.grpc", "filer", "filer.port.grpc", "s3", "s3.port.grpc",
         "admin", "admin.port.grpc")  # fmt: skip


def program() -> str | None:
    """The server's program; None where it is not installed."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class S3Server:
    """See the module. `with S3Server(folder) as server:` has it up with an empty bucket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.ports["s3"]

    def url(self, prefix: str = "", port: int | None = None) -> str:
        """A URL of the bucket; through another port, such as a proxy's, if one is given."""
        return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port or self.port}"

    def start(self, *, wait: bool = True) -> None:
        found = program()
        assert found is not None, "the server is not installed"
        self.folder.mkdir(exist_ok=True)
        identity = {"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
        ports = [f"-{name if '.' in name else f'{name}.port'}={port}" for name, port in self.ports.items()]
        quiet = ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
                 "-master.telemetry=false", "-s3.iam=false"]  # fmt: skip
        where = ["-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.config=s3.json", f"-bucket={BUCKET}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [found, "mini", *where, *ports, *quiet], cwd=self.folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "2"}, start_new_session=True,
            )  # fmt: skip
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it takes objects."""
        from obstore.store import S3Store

        store = S3Store(
            BUCKET, endpoint=f"http://127.0.0.1:{self.port}", access_key_id=KEY, secret_access_key=SECRET,
            client_options={"allow_http": True, "timeout": "5s"}, retry_config={"max_retries": 0},
        )  # fmt: skip
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                store.put("ready", b"yes")
                return
            except Exception as problem:
                alive = self.process is not None and self.process.poll() is None
                if not alive or time.monotonic() > end:
                    log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                    raise RuntimeError(f"the S3 server does not come up: {problem}\n{log}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGSTOP: it is there, and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for port in self.ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)


def answers(port: int) -> bool:
    """Is anybody there?"""
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=1.0):
            return True
    except OSError as problem:
        return hasattr(problem, "code")
