"""`kvstate` in a fork of a process that has everything imported, which takes a new one seconds.

    python -m tests.docs.prefork serve SOCKET       says `ready`, and then carries out what it is sent
    python -I -S tests/docs/prefork.py SOCKET ...   as `python -m kvstate ...`, which it hands to the other

The command gets the streams, the folder and the environment of who asked for it, and its status is handed back.
"""

import atexit
import json
import os
import socket
import sys
from contextlib import suppress

STREAMS = (0, 1, 2)
LENGTH = 8
"""Bytes that say how long an order is."""


def ask(path: str, words: list[str]) -> int:
    """Have a command carried out; its status, as a shell has it."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        order = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109 - without pathlib: it counts
        socket.send_fds(link, [len(order).to_bytes(LENGTH, "big")], STREAMS)
        link.sendall(order)
        status = int(link.recv(16))
    return status if status >= 0 else 128 - status


def carry_out(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be that command. Does not return."""
    from kvstate.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["kvstate", *words]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take all modules apart takes a second


def answer(link: socket.socket) -> None:
    """One order, in a process of its own, and its status."""
    length, streams, _, _ = socket.recv_fds(link, LENGTH, len(STREAMS))
    order = link.makefile("rb").read(int.from_bytes(length, "big"))
    child = os.fork()
    if child == 0:
        for stream, there in zip(streams, STREAMS, strict=True):
            os.dup2(stream, there)
            os.close(stream)
        link.close()
        carry_out(*json.loads(order))
    link.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def serve(path: str) -> None:
    """Until it is killed."""
    import signal

    import kvstate.cli

    with suppress(ImportError):  # without torch a replay says so itself
        import kvstate.replay.driver  # noqa: F401 - with it comes torch

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            link, _ = door.accept()
            if os.fork() == 0:
                door.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(link)
                os._exit(0)
            link.close()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
