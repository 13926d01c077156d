"""The player of scenarios itself: a wrong answer shows, a mistake is one sentence, a broken law is seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvstate.testing import COMMANDS, ScenarioError, check, parse, play

HEAD = "# A scenario\n\n"
SETUP = "ledger device=b7,b8 host=h3\ngiven K1 in host\nopen r1\nlookup r1 K1\nallocate r1 1\nload r1 into b7\n"


def scenario(*blocks: str) -> str:
    return HEAD + "\n\n".join(f"{block.strip()}\n----" for block in blocks) + "\n"


def played(*blocks: str) -> str:
    return play(parse(scenario(*blocks), "try.txt")).text


def problems(*blocks: str, head: str = "") -> list[str]:
    return list(play(parse(scenario(*blocks).replace("# A scenario\n", f"# A scenario\n{head}"), "try.txt")).problems)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_wrong_answer_fails_and_shows_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(played("ledger device=b7 host=h3\nopen r1\nallocate r1 1"), encoding="utf-8")
    assert check(path) == ""
    path.write_text(path.read_text(encoding="utf-8").replace("r1/1 gets b7@0", "r1/1 gets b8@0"), encoding="utf-8")
    assert "-r1/1 gets b8@0\n+r1/1 gets b7@0" in check(path)


def test_a_rewrite_replaces_answers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    text = scenario("ledger device=b7 host=h3", "# Why.\nquietly\nopen r1\nallocate r1 1")
    text = text.replace("\n----", "\n----\nold")
    path.write_text(text, encoding="utf-8")
    assert check(path, rewrite=True) == ""
    written = path.read_text(encoding="utf-8")
    assert written == text.replace("----\nold", "----\nledger with device b7; host h3", 1).replace(
        "----\nold", "----\nr1/1 is open\nr1/1 gets b7@0"
    )
    assert check(path) == ""


def test_rows_effects_and_verdicts_are_told_and_rows_can_be_left_out() -> None:
    loud = played(SETUP)
    assert "  block b7: loading, writers 0 -> 1 (B04)\n  send t3: fetch h3@0 -> b7@2 as K1\n" in loud
    quiet = played(f"quietly\n{SETUP}")
    assert "(B04)" not in quiet
    assert "  send t3: fetch h3@0 -> b7@2 as K1\n" in quiet


def test_every_command_says_how_it_is_used() -> None:
    for verb, command in COMMANDS.items():
        assert command.usage.split()[0] == verb
        assert command.summary.endswith("."), verb


def test_ranks_namespaces_and_an_undo_are_told_apart() -> None:
    text = played(
        "ledger device=b7 host=h3 disk=d1 durable ranks=2 attempts=1\nopen r1 space=other\nallocate r1 1\n"
        "compute r1 b7=K1\nseal r1 b7=K1\noffload r1 b7 to=disk",
        "land t1\nbytes d1\nland t2\ndeliver t1\ndeliver t2",
        "land t3\ndeliver t3\ndeliver t4 denied NO_SPACE\nopen r2\nlookup r2 K1",
    )
    assert "send t2: store b7@0 -> d1@0 as K1 of other, rank 1\n" in text
    assert "d1 holds K1 of other by r1/1 on rank 0, nothing on rank 1\n" in text
    assert "d1 is durable on rank 0\n" in text
    assert "send t3: undo, remove K1 of other from d1\n" in text
    assert "r2/1 misses\n" in text


# -- laws --------------------------------------------------------------------------------------------------------------


def test_bytes_that_nobody_verifies_are_looked_at_all_the_same() -> None:
    setup = SETUP.replace("host=h3", "host=h3 unverified")
    [problem] = problems(f"{setup}corrupt h3\nland t3\ndeliver t3 done")
    assert problem == "try.txt:11: BROKEN L5.proceed: l1 promises K1, and b7 holds junk"
    [problem] = problems("ledger device=b7 host=h3\ngiven K1 in host\ncorrupt h3\nopen r1\nlookup r1 K1")
    assert problem.endswith("BROKEN L9.bytes: K1 is a hit, and h3 holds junk")


def test_a_row_that_should_answer_has_to_fire() -> None:
    assert problems(SETUP, head="# Rows: B04\n") == []
    [problem] = problems(SETUP, head="# Rows: B04 B37\n")
    assert problem.endswith("row B37 is among the rows that answer, and did not fire")


def test_what_was_only_prepared_does_not_count_as_fired() -> None:
    assert problems("ledger device=b7 host=h3\ngiven K1 in host", head="# Rows: O30\n") != []


def test_a_poisoned_ledger_has_to_be_expected() -> None:
    poison = f"{SETUP}deliver t3 denied DEVICE_ERROR"
    [problem] = problems(poison)
    assert "the ledger is poisoned: device: DEVICE_ERROR" in problem
    assert problems(f"{poison}\nallocate r1 1\nexpect fatal") == []
    [problem] = problems(f"{SETUP}expect fatal")
    assert problem.endswith("the ledger should be poisoned in the end, and is not")


# -- what nobody planned -----------------------------------------------------------------------------------------------


def test_bytes_that_have_changed_places_are_another_key_to_a_check() -> None:
    setup = SETUP.replace("h3", "h3,h4").replace("given K1", "given K1 K2").replace("load", "swap h3 h4\nload")
    text = played(f"{setup}land t5\ndeliver t5\nland t6\ndeliver t6")
    assert "b7 holds K2 by past and not K1\nt6 broken KEY_MISMATCH: heard\n" in text


def test_a_garbled_report_is_kept_in_words() -> None:
    text = played(
        SETUP.replace("host=h3", "host=h3 attempts=1"), "garble t3 failed (1,) KV_OOM", "garble t3 done alone 7"
    )
    assert "t3 failed, and a garbled list: heard\n" in text
    assert "because UNKNOWN at fetch, t3 attempt 1, not retryable [the worker sent what is no failure: (1,)]\n" in text
    assert "because KV_OOM at fetch, t3 attempt 1, retryable\n" in text
    assert "t3 done, and a garbled list: stale\n" in text


def test_an_audit_says_what_was_meddled_with_and_then_no_more() -> None:
    text = scenario(f"{SETUP}meddle h3 readers=0", "tick 1", "land t3\ndeliver t3\nexpect fatal")
    result = play(parse(text, "try.txt"))
    assert "h3 has readers 0\nan audit says: L8.recount: h3 has readers 0, the records say 1\n" in result.text
    assert "BROKEN" not in result.text
    assert result.problems == ()


def test_a_new_process_knows_nothing_and_takes_no_report_of_the_one_before() -> None:
    text = played(SETUP, "restart\nshow keys rest", "open r1\nallocate r1 1\nearlier t3 done\nshow counters")
    assert "a new process, incarnation 2\nno keys\nat rest\n" in text
    assert "r1/1 gets b7@0\n" in text
    assert "t3 of incarnation 1 done: stale\nstale 1, unknown 0, retries 0\n" in text


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "sentence"),
    [
        ("delver t3", "there is no command delver; did you mean deliver?"),
        ("zzz", "there is no command zzz; there are abort, allocate, announce, bytes,"),
        ("open", "it has too few words; it is written `open REQUEST... [space=TENANT]`"),
        ("finish r1 r2", "it has too many words; it is written `finish REQUEST`"),
        ("abort r9", "there is no request r9; open it first (open r9)"),
        ("abort r1/2", "there is no request r1/2; open it first (open r1)"),
        ("allocate r1 some", "some is not a number; it is written `allocate REQUEST COUNT`"),
        ("tick soon", "soon is not a number of seconds;"),
        ("bytes b9", "there is no block b9; the ledger has b7 b8 h3"),
        ("release r1 b7@x", "b7@x names no life of b7; write b7@0"),
        ("seal r1 b7", "b7 is not of the form b7=K1;"),
        ("offload r1 b7 to=tape", "there is no pool tape; the ledger has device host"),
        ("load r1 onto b7", "onto stands where into should be;"),
        ("open r2\nload r2 into b8", "r2/1 has no hit; look one up first"),
        ("cancel j7", "there is no job and no load j7;"),
        ("land b7", "b7 is no token; tokens are t1, t2..."),
        ("land t99", "no copy was sent under t99"),
        ("land t3\nland t3", "t3 has landed already"),
        ("deliver t3", "t3 has not landed; land it first, or say what is reported of it"),
        ("deliver t3 done", "t3 has not landed, so it can't be done; land it first"),
        ("deliver t3 again", "nothing was reported of t3 yet, so it can't be said again"),
        ("deliver t3 cancelled\nland t3", "t3 is over, so it can't land any more"),
        ("fence\nland t3", "t3 is over, so it can't land any more"),
        ("deliver t3 failed OOPS", "there is no error code OOPS; there are BLOCK_NOT_FOUND,"),
        ("deliver t3 failed colour=red", "colour is no detail of a failure (there are line stage"),
        ("deliver t3 failed line=0", "line belongs to no failure;"),
        ("step 41 r1 b8=K1", "r1/1 does not own b8 as an open block, so no step may write it"),
        ("open r2\nstep 41 r2\nretire 41", "step 41 has not landed, so it can't retire; land it first (land step 41)"),
        ("land step 41", "step 41 is not under way"),
        ("open r2\nstep 41 r2\nland step 41\nland step 41", "step 41 has landed already"),
        ("show everything", "everything can't be shown; there are blocks, free, keys,"),
        ("expect rest", "rest stands where fatal should be;"),
        ("swap b7", "it has too few words; it is written `swap BLOCK BLOCK`"),
        ("garble t3 failed oops", "oops is no error code and no Python value;"),
        ("garble t3 failed alone 1 2", "what is alone is one value;"),
        ("meddle b7 state=1", "state is no counter of a block (there are owners readers writers lost)"),
        ("meddle b7 lost=many", "many is not a number;"),
        ("earlier t3 done", "there is no process before this one; start it anew first (restart)"),
        ("given K1 in host", "K1 can't be stored in host: nothing to store:"),
        ("allocate r1 1\ngiven K2 in host", "there is no room on the device to compute K2;"),
        ("ledger device=b7 host=b7", "block b7 is named twice"),
        ("ledger device=b7 ranks=0", "ranks: 0 is too small; it must be at least 1"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(commands: str, sentence: str) -> None:
    with pytest.raises(ScenarioError) as error:
        played(SETUP + commands)
    line = len(f"{HEAD}{SETUP}{commands}".splitlines())
    assert str(error.value).startswith(f"try.txt:{line}: {sentence}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "1: a scenario begins with its title, in a line `# Title`"),
        ("open r1\n", "1: a scenario begins with its title,"),
        (f"{HEAD}open r1\n", "3: commands end with a line `----`, and narration begins with `#`"),
        (f"{HEAD}----\n", "3: there is no command in this block"),
        (f"{HEAD}quietly\n----\n", "3: there is no command in this block"),
        (f"{HEAD}open r1\n----\n", "3: there is no ledger yet; a scenario begins with"),
    ],
)
def test_what_is_no_scenario_is_said_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ScenarioError, match=f"^try.txt:{re.escape(sentence)}"):
        play(parse(text, "try.txt"))


def test_a_copy_that_waits_for_a_step_can_not_land_before() -> None:
    store = "ledger device=b7 host=h3\nopen r1\nallocate r1 1\nstep 41 r1 b7=K1\nseal r1 b7=K1\noffload r1 b7\n"
    with pytest.raises(ScenarioError, match="t2 starts after step 41, which is under way"):
        played(f"{store}land t2")
    assert "h3 holds K1 by r1/1" in played(f"{store}land step 41\nretire 41\nland t2")
