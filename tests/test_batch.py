"""Many submissions: each graded once, none lost, whatever stops the batch."""

import json
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lumen.exercises import SETS
from lumen.grading import batch
from lumen.grading.batch import Plan, Record, Result, draw_seeds, grade_all, read_seeds, write_whole
from lumen.grading.examine import Mark, Sitting
from lumen.grading.sandbox import Limits, NoSandbox
from lumen.grading.submissions import Submission

MARK = Mark("norms.layer", 2, 2, "passed")


def result(name, *marks, problem=""):
    return Result(name, f"{name}.ipynb", "norms", problem, marks or (MARK,), "1 bwrap", 0.5)


def handed_in(*names):
    return [Submission(name, name, ("a = 1",)) for name in names]


@pytest.fixture
def record(tmp_path):
    made = Record(tmp_path / "x.record")
    made.begin({"seeds": [0, 7]})
    return made


def run(record, submissions, grade, jobs=2, stop=None):
    return list(grade_all(submissions, grade, record, jobs, stop or threading.Event()))


# ---- one submission


def test_a_slow_start_is_not_taken_from_the_learners_time():
    class Slow:
        limits = Limits(submission_seconds=0.2)

        def open(self):
            time.sleep(0.3)
            return self

        def ask(self, request, seconds):
            return {"found": "missing"}

        def close(self):
            pass

    question = SETS["norms"][0]
    assert [m.verdict for m in Sitting([""], Slow()).marks([question], [0])] == ["missing"]


# ---- the record


def test_a_result_comes_back_as_it_was_kept(record):
    kept = result(
        "Ann Öz 李", MARK, Mark("norms.rms", 0, 1, "wrong", "biased", "a row", "Look.", 0.1)
    )
    record.keep(kept)
    assert record.result("Ann Öz 李") == kept


def test_remarks_are_kept_and_a_result_of_an_older_batch_has_none(record):
    kept = replace(result("a"), remarks=("Code cell 1 stopped with SyntaxError.",))
    record.keep(kept)
    assert record.result("a") == kept
    old = json.loads(record.path_of("a").read_text())
    del old["remarks"]
    record.path_of("a").write_text(json.dumps(old))
    assert record.result("a").remarks == ()


@pytest.mark.parametrize(
    "names", [("a/b", "a_b"), ("A", "a"), ("é", "e\u0301"), ("x" * 300, "x" * 301)]
)
def test_names_that_look_alike_are_kept_apart(record, names):
    for name in names:
        record.keep(result(name))
    assert [record.result(name).submission for name in names] == list(names)
    paths = {str(record.path_of(name)).lower() for name in names}
    assert len(paths) == 2 and all(path.isascii() for path in paths)


def test_a_name_leads_to_no_other_folder(record):
    assert record.path_of("../../etc/passwd").parent == record.folder
    assert record.path_of("").name.startswith("submission-")


def test_the_record_is_closed_to_others(record):
    assert record.folder.stat().st_mode & 0o077 == 0
    record.keep(result("a"))
    assert record.path_of("a").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"marks": [1]}', '{"marks": []}'])
def test_a_result_that_is_not_whole_counts_as_none(record, text):
    record.path_of("a").write_text(text)
    assert record.result("a") is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_whole(path, "before")

    def broken(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch.os, "replace", broken)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "after")
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["x"]


def test_a_record_without_a_head_cannot_go_on(tmp_path):
    with pytest.raises(ValueError, match="no batch to go on with"):
        Record(tmp_path).read_head()


# ---- seeds


def test_seeds_are_the_public_one_and_fresh_secret_ones():
    drawn = [draw_seeds() for _ in range(20)]
    assert {seeds[0] for seeds in drawn} == {0}
    secret = [seed for seeds in drawn for seed in seeds[1:]]
    assert len(set(secret)) == len(secret) == 20 * batch.SECRET_SEEDS


def test_seeds_are_read_from_a_list_and_from_a_record(tmp_path, record):
    (tmp_path / "s.json").write_text("[1, 2]")
    assert read_seeds(tmp_path / "s.json") == (1, 2)
    assert read_seeds(record.head) == (0, 7)


@pytest.mark.parametrize("text", ["", "[]", "3", '["a"]', "[1.5]", "[true]", '{"other": [1]}'])
def test_a_file_without_seeds_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match="seeds|whole numbers"):
        read_seeds(tmp_path / "s.json")


# ---- the run


def test_every_submission_is_graded_once_and_kept(record):
    asked = []

    def grade(submission):
        asked.append(submission.name)
        return result(submission.name)

    names = [f"s{n}" for n in range(30)]
    found = run(record, handed_in(*names), grade, jobs=3)
    assert sorted(asked) == sorted(r.submission for r in found) == sorted(names)
    assert all(record.result(name) for name in names)


def test_no_more_run_at_the_same_time_than_were_asked_for(record):
    running, seen, lock = [], [], threading.Lock()

    def grade(submission):
        with lock:
            running.append(submission.name)
            seen.append(len(running))
        threading.Event().wait(random.random() / 200)
        with lock:
            running.remove(submission.name)
        return result(submission.name)

    run(record, handed_in(*map(str, range(60))), grade, jobs=4)
    assert max(seen) == 4


def test_a_batch_goes_on_where_it_stood(record):
    names = [f"s{n}" for n in range(20)]
    stop, asked = threading.Event(), []

    def grade(submission):
        asked.append(submission.name)
        if len(asked) == 7:
            stop.set()
        return result(submission.name)

    first = run(record, handed_in(*names), grade, jobs=2, stop=stop)
    assert 7 <= len(first) <= 9
    second = run(record, handed_in(*names), grade, jobs=2)
    assert sorted(asked) == sorted(names)
    assert len(first) + len(second) == 20


def test_a_sandbox_that_is_gone_ends_the_batch_and_keeps_what_was_done(record):
    def grade(submission):
        if submission.name == "s3":
            raise NoSandbox("bwrap did not start: no space")
        return result(submission.name)

    with pytest.raises(NoSandbox, match="no space"):
        run(record, handed_in(*(f"s{n}" for n in range(9))), grade, jobs=1)
    assert record.result("s2") and not record.result("s3") and not record.result("s8")


# ---- the plan


class NoBox:
    """Stands for a sandbox where none may be opened."""

    name = "1 bwrap"

    def open(self):
        raise AssertionError("a box was opened for nothing")


def test_what_cannot_be_read_gets_a_row_for_each_question_without_a_box():
    plan = Plan(SETS, (0,), NoBox(), "norms")
    graded = plan.grade(Submission("a", "a.ipynb", problem="the file is empty"))
    assert [mark.question for mark in graded.marks] == [q.name for q in SETS["norms"]]
    assert {(mark.points, mark.verdict) for mark in graded.marks} == {(0, "unreadable")}
    assert (graded.points, graded.max_points, graded.problem) == (0, 10, "the file is empty")


def test_a_notebook_of_no_set_is_told_so():
    graded = Plan(SETS, (0,), NoBox()).grade(Submission("a", "a.ipynb", ("x = 1",)))
    assert graded.marks == () and "--set" in graded.problem


def test_a_head_says_what_a_result_depends_on(record):
    assert set(batch.versions()) == {"lumen-book", "torch", "python"}
    assert json.loads(record.head.read_text())["seeds"] == [0, 7]
    assert isinstance(record.folder, Path)
