"""The file of results, the list of survivors, and the page that is printed from both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvstate.mutation import page
from kvstate.mutation.code import faults as planted_faults
from kvstate.mutation.kills import MEANS, Kill, Result
from kvstate.mutation.results import FILE, Known, Results, ResultsError, faults, known, read, write
from kvstate.mutation.run import sample
from kvstate.spec.reading import SpecErrors
from tests.mutation.parts import MUTANTS, SPEC, around
from tests.tidy.files import ROOT

KILLED = Result("B01 deleted", "row deleted", "block", "B01", (Kill("loader", "events_are_answered"),), "killed")
LEFT = Result("B02 keeps it", "change dropped", "block", "B02", (), "survived", "no scope reaches it")
SAME = Result("B03 says b before a", "effects exchanged", "block", "B03", (), "harmless", "the same graph")
FOUND = Results("1.2.3", (KILLED, LEFT, SAME), (replace(KILLED, kind="code fault", machine="ledger", row=""),))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "found.json"
    write(FOUND, file)
    again = read(file)
    assert again == FOUND
    assert [one.note for one in again.mutants] == [one.note for one in FOUND.mutants]
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["mutants"][0] == {
        "name": "B01 deleted",
        "kind": "row deleted",
        "machine": "block",
        "row": "B01",
        "killed_by": [{"means": "loader", "what": "events_are_answered", "law": ""}],
        "verdict": "killed",
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"spec": "1", "kvstate": "1", "mutants": [{}], "code": []}'])
def test_a_file_that_holds_no_results_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match=r"found\.json holds no results of kvstate mutate"):
        read(tmp_path / "found.json")


def test_a_survivor_has_to_be_listed_and_one_that_is_listed_has_to_survive() -> None:
    nothing = Known({}, {})
    assert faults([KILLED, SAME], nothing) == []
    assert faults([LEFT], nothing) == [
        "B02 keeps it: nothing notices it (no scope reaches it), and survivors.toml does not say why"
    ]
    assert faults([LEFT], Known({LEFT.name: "Because."}, {})) == []
    assert faults([KILLED], Known({KILLED.name: "Because."}, {})) == [
        "B01 deleted: is killed, and survivors.toml says that nothing notices it"
    ]


def test_the_list_is_read_and_its_mistakes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "survivors.toml"
    file.write_text('[[survivor]]\nname = "a"\nwhy = "It is so."\n[[former]]\nname = "b"\nwhy = "It was so."\n')
    assert known(file) == Known({"a": "It is so."}, {"b": "It was so."})
    file.write_text('[[survivor]]\nname = "a"\nwhy = "x"\n[[survivor]]\nname = "a"\nreason = "y"\n')
    with pytest.raises(SpecErrors, match='unknown key "reason"') as caught:
        known(file)
    assert '"a" is listed twice' in str(caught.value)


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    names = list(MUTANTS)
    one = sample(names, 7, 60, names[-1:])
    assert one == sample(names, 7, 60, names[-1:])
    assert one != sample(names, 8, 60, names[-1:])
    assert names[-1] in one
    assert 60 <= len(one) <= 61
    assert one == sorted(one, key=names.index)
    assert sample(names, 7, 10**6, []) == names


# -- what is checked in ------------------------------------------------------------------------------------------------


def test_every_mutant_of_this_spec_has_a_result() -> None:
    """If not, the results were made of another spec: `make mutate` makes them anew."""
    found = read(ROOT / FILE)
    assert found.spec == SPEC.version
    assert [one.name for one in found.mutants] == list(MUTANTS)
    for one in found.mutants:
        mutant = MUTANTS[one.name]
        assert (one.kind, one.machine, one.row) == (mutant.kind, mutant.machine, mutant.row)
        assert bool(one.killed_by) == (one.verdict == "killed")
        assert all(kill.means in MEANS for kill in one.killed_by)


def test_every_planted_fault_has_a_result() -> None:
    pytest.importorskip("torch", reason="faults of the runtime are among them, and torch is not installed")
    assert [one.name for one in read(ROOT / FILE).code] == list(planted_faults(around()))


def test_nothing_survives_but_what_is_listed() -> None:
    found = read(ROOT / FILE)
    assert faults(found.mutants, known()) == []
    assert known().survivors.keys() <= MUTANTS.keys()
    assert known().former.keys() <= MUTANTS.keys()
    assert not known().survivors.keys() & known().former.keys()
    assert all(one.note for one in found.code if one.verdict == "survived")


def test_the_page_is_what_the_results_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert page.main(["--check"]) == 0
    monkeypatch.setattr(page, "PAGE", tmp_path / "mutation.md")
    (tmp_path / "mutation.md").write_text("something else", encoding="utf-8")
    assert page.main(["--check"]) == 1
    assert page.main([]) == 0
    assert page.main(["--check"]) == 0


def test_what_the_page_says() -> None:
    said = page.page(FOUND, Known({"B02 keeps it": "Nobody looks."}, {"B04 deleted": "A scope was missing."}))
    assert "spec 1.2.3" in said
    assert "* `B03 says b before a`: the same graph" in said
    assert "* `B02 keeps it`: Nobody looks." in said
    assert "* `B04 deleted`: A scope was missing." in said
    assert page.tally(FOUND.mutants)[-1][:3] == ("all", "3", "1")
    assert page.tally(FOUND.mutants)[-1][-2:] == ("1", "1")
