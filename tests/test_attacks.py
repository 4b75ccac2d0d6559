"""Hostile and broken submissions, graded in one batch: each keeps what it earned, and no more."""

import csv

import pytest

from lumen.exercises import SETS
from lumen.grading.command import main
from tests import attacks, boxes
from tests.attacks import ATTACKS, NO_PROMISE, QUICK, SET

QUICKLY = ["--cell-seconds", "5", "--question-seconds", "5", "--submission-seconds", "60"]
SLOW = [name for name in ATTACKS if name not in QUICK]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The points of a group of attacks at a level; each group is one batch, graded once."""
    known = {}

    def points(level, names):
        key = level, tuple(names)
        if key not in known:
            boxes.need(level)
            top = tmp_path_factory.mktemp(f"level{level}")
            top.chmod(0o700)
            folder, out = top / "handed in", top / "grades.csv"
            folder.mkdir()
            attacks.write(folder, names)
            words = ["grade", str(folder), "--out", str(out), "--set", SET, "-j", "2", *QUICKLY]
            assert main(SETS, [*words, "--sandbox", str(level)]) == 0
            with open(out, encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["question"] == "total"]
            assert {row["sandbox"][0] for row in rows} == {str(level)}
            known[key] = {row["submission"]: int(row["points"]) for row in rows}
        return known[key]

    return points


def test_there_are_enough_of_them_and_of_both_kinds():
    assert len(ATTACKS) >= 40 and len(QUICK) >= 12
    values = [attack.points for attack in ATTACKS.values()]
    assert values.count(0) >= 20 and values.count(attacks.FULL) >= 15
    assert [n for n, a in ATTACKS.items() if a.at_2 == NO_PROMISE] == ["the_references_by_search"]


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_submission_has_what_it_earned(graded, name):
    level = boxes.best()
    found = graded(level, sorted(QUICK))
    wanted = ATTACKS[name].points if level == 1 else ATTACKS[name].at_2
    assert found[name] == wanted


@pytest.mark.slow
@pytest.mark.xdist_group("level 1")
@pytest.mark.parametrize("name", SLOW)
def test_every_submission_has_what_it_earned_at_level_1(graded, name):
    assert graded(1, SLOW)[name] == ATTACKS[name].points


@pytest.mark.slow
@pytest.mark.xdist_group("level 2")
@pytest.mark.parametrize("name", [n for n in ATTACKS if ATTACKS[n].at_2 != NO_PROMISE])
def test_every_submission_has_what_it_earned_at_level_2(graded, name):
    assert graded(2, list(ATTACKS))[name] == ATTACKS[name].at_2
