"""`examples/tiny_server.py`: all that it promises happens, all tokens are right, and what makes one wrong is seen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch", reason="the decoder is of torch")

import torch
from click.testing import CliRunner, Result

from examples import tiny_server
from examples.tiny import BLOCK, traffic, weather
from examples.tiny import server as scheduler
from examples.tiny.decoder import Decoder, greedy
from examples.tiny.server import Server
from examples.tiny.traffic import Request
from examples.tiny_server import Settings, main, run
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Refusal
from kvstate.spec.site_lists import MODULES
from tests.long import long_but
from tests.tidy.files import ROOT, imports

SMALL = {"requests": 24, "device_blocks": 20, "host_blocks": 60, "faults": True, "verify": True}
"""Memory so small that all of it happens."""
FILES = [ROOT / "examples" / "tiny_server.py", *sorted((ROOT / "examples" / "tiny").glob("*.py"))]


def small(seed: int, **other: object) -> tiny_server.Result:
    return run(Settings(seed=seed, **(SMALL | other)))  # type: ignore[arg-type]


def called(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the command does it: two threads that share such small products wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# -- the decoder -------------------------------------------------------------------------------------------------------


def test_a_token_is_the_same_to_the_last_bit_however_it_is_computed() -> None:
    """At once or one by one, in these blocks or in those, over what another has left there."""
    decoder, dice = Decoder(5), Random(5)
    tokens = [dice.randrange(decoder.shape.vocabulary) for _ in range(3 * BLOCK)]
    whole, single = decoder.make_cache(3), decoder.make_cache(7)
    for layer in single:
        layer.fill_(torch.inf)
    logits = [
        decoder.forward(whole, tokens[start : start + BLOCK], start, [0, 1, 2]) for start in range(0, 3 * BLOCK, BLOCK)
    ]
    for position, token in enumerate(tokens):
        alone = decoder.forward(single, [token], position, [4, 1, 6])
        if position % BLOCK == BLOCK - 1:
            assert alone.equal(logits[position // BLOCK])
    assert all(one[:, [4, 1, 6]].equal(other) for one, other in zip(single, whole, strict=True))


def test_a_token_depends_on_every_block_before_it() -> None:
    decoder, dice = Decoder(5), Random(5)
    prompt = [dice.randrange(decoder.shape.vocabulary) for _ in range(6 * BLOCK)]
    right = greedy(decoder, prompt, 8)
    for block in range(6):
        other = list(prompt)
        other[block * BLOCK : (block + 1) * BLOCK] = [token ^ 1 for token in prompt[block * BLOCK :][:BLOCK]]
        assert greedy(decoder, other, 8) != right


# -- the server --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", long_but([1], [1, 3]))
def test_all_of_it_happens_and_every_token_is_right(seed: int) -> None:
    result = small(seed)
    counts = result.counts
    assert (result.wrong, result.left) == ({}, ())
    assert result.good
    assert result.faults.keys() == set(weather.FAULTS)
    assert counts.finished + counts.aborted == SMALL["requests"]
    assert min(counts.finished, counts.aborted, counts.aborted_in_load) > 0
    assert min(counts.preempted, counts.readmitted, counts.waited, counts.fences) > 0
    assert min(counts.from_device, counts.from_host, counts.computed, counts.recomputed) > 0
    assert {"proceed", "recompute", "aborted"} == counts.loads.keys()
    assert {"committed", "failed"} == counts.stores.keys()
    assert {"CRC_MISMATCH", "LOAD_TIMEOUT"} <= counts.codes.keys()


def test_a_seed_gives_one_run() -> None:
    assert small(3, requests=6) == small(3, requests=6)


def test_threads_in_real_time_serve_the_same() -> None:
    result = small(10, faults=False)
    assert result.good
    assert not result.faults
    assert result.counts.from_host > 0
    assert {"committed"} == result.counts.stores.keys()


def test_without_a_host_pool_nothing_is_stored() -> None:
    result = small(10, host_blocks=0, requests=6)
    assert result.good
    assert not result.counts.stores
    assert not result.counts.loads


# -- what would make a token wrong, is seen ----------------------------------------------------------------------------


def test_a_load_that_is_published_unchecked_is_seen() -> None:
    result = run(Settings(6, 30, 40, 120, faults=True, verify=False))
    assert result.wrong
    assert "CRC_MISMATCH" not in result.counts.codes
    assert not result.good


class Hasty(Server):
    """Gives the blocks of whoever leaves in the middle of a load to the next request, copy or no copy."""

    free: list[BlockRef]

    def serve(self, requests: object) -> None:
        self.free = []
        super().serve(requests)  # type: ignore[arg-type]

    def close(self, request: Request, ending: str) -> None:
        if request.load:
            _, hit = self.loads[request.load]
            self.free += [request.blocks[place] for place in hit.below]
        super().close(request, ending)

    def plan(self, request: Request, places: object) -> None:
        super().plan(request, places)  # type: ignore[arg-type]
        for span in request.spans:
            if self.free:
                request.blocks[span.start // BLOCK] = self.free.pop()


def test_blocks_that_are_given_back_under_a_copy_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger refuses to share such blocks, and this engine goes on all the same."""
    monkeypatch.setattr(scheduler, "Server", Hasty)
    monkeypatch.setattr(scheduler, "granted", lambda answer: answer)
    monkeypatch.setattr(weather, "RATE", 0.0)
    monkeypatch.setattr(weather, "SOON", (0.02, 0.05))
    monkeypatch.setattr(traffic, "IMPATIENT", 0.6)
    result = small(2)
    assert not result.faults
    assert result.counts.aborted_in_load > 0
    assert result.wrong
    assert not result.good


def test_what_is_still_under_way_at_the_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy ever lands, and nobody waits for one or has it proved over."""
    monkeypatch.setattr(scheduler, "SETTLE_TURNS", 0)
    monkeypatch.setattr(Server, "fence", lambda self: None)
    monkeypatch.setattr(weather, "SOON", (1000.0, 1000.0))
    monkeypatch.setattr(tiny_server, "SHUTDOWN_SECONDS", 0.05)
    result = small(1, device_blocks=200, requests=4)
    assert not result.wrong
    assert result.left
    assert not result.good
    assert any(line.startswith("LEFT      store part ") for line in tiny_server.lines(result))


def test_a_broken_invariant_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(self: Server) -> None:
        scheduler.granted(Refusal("block 7 is free and no row takes write_end"))

    monkeypatch.setattr(Server, "hear", poisoned)
    done = called("--requests", "1")
    assert done.exit_code == 1
    assert done.output == (
        "Error: stopped serving, for an invariant is broken: block 7 is free and no row takes write_end\n"
    )


# -- the command -------------------------------------------------------------------------------------------------------


def test_one_json_object() -> None:
    done = called("--requests", "5", "--json", "--seed", "2")
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert found["good"] is True
    assert found["wrong"] == {}
    assert found["settings"] == {
        "seed": 2, "requests": 5, "device_blocks": 40, "host_blocks": 120, "faults": True, "verify": True
    }  # fmt: skip
    assert found["counts"]["finished"] + found["counts"]["aborted"] == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--device-blocks", "4"), "4 is too few: the longest request needs 11 at once; give 11 to 65,536"),
        (("--device-blocks", "65537"), "65537 is too many; give 11 to 65,536"),
        (("--host-blocks", "-1"), "-1 is too few; give 0 to 65,536"),
        (("--requests", "0"), "0 is too few; give 1 to 100,000"),
        (("--seed", "-1"), "-1 is not in the range 0<=x<=4294967295"),
        (("--requests", "many"), "'many' is not a valid integer"),
        (("--fault",), "No such option"),
    ],
)
def test_a_mistake_gets_a_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = called(*words)
    assert done.exit_code == 2
    assert sentence in done.output
    assert "Traceback" not in done.output


def test_without_torch_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['torch'] = None; from examples.tiny_server import main; main([])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"Error: .*torch.*; the decoder needs it: pip install 'kvstate\[runtime\]'\n", done.stderr)


# -- the texts ---------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "tiny-server.md").read_text(encoding="utf-8")


def shown() -> Iterator[tuple[list[str], str]]:
    """The commands of the page, each with what stands below it."""
    for block in re.findall(r"(?ms)^```console\n\$ python -m examples\.tiny_server(.*?)^```$", PAGE):
        words, _, out = block.partition("\n")
        yield words.split(), out


@pytest.mark.long
@pytest.mark.parametrize(("words", "out"), list(shown()), ids=lambda value: " ".join(value)[:20])
def test_the_page_shows_what_is_printed(words: list[str], out: str) -> None:
    """All but the figures, which another version of torch may move: there a number stands for any."""
    figures = re.compile(r"\d[\d,]*")
    pattern = r"\d[\d,]*".join(map(re.escape, figures.split(re.sub(r"(?m)^(faults|failures) .*", r"\1 <list>", out))))
    pattern = pattern.replace("<list>", ".*").replace(r"\.\.\.", r"(?:.*\n)*?.*")
    done = called(*words)
    assert re.fullmatch(pattern, done.output), done.output
    assert done.exit_code == ("WRONG" in out)


def test_the_page_tells_every_option() -> None:
    told = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert told == {word for param in main.params for word in param.opts}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_uses_what_is_public_and_nothing_else(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = {module for module, _ in imports(path) if module.startswith("kvstate.")}
    assert used - {"kvstate.KVRuntime", "kvstate.RuntimeConfig"} <= MODULES.keys()
    assert not re.search(r"(?<!self)\._[a-z]", text)
    assert len(text.splitlines()) <= 300
