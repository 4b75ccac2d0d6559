"""The command line, run as an instructor and a learner run it."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lumen.exercises import SETS
from lumen.grading import command, report
from lumen.grading.command import Progress, main
from lumen.grading.examine import TELLING
from lumen.grading.question import Question
from lumen.grading.sandbox import NAMES, _seen
from tests import boxes
from tests.attacks import FULL, POINTS, RIGHT, SET, TARGETS, WRONG, notebook, without

ROOT = Path(__file__).resolve().parents[1]
SEEN = _seen()
LEARNER = next(p for p in sorted((ROOT / "exercises").glob("*.ipynb")) if "12_norm" in p.name)


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    made = tmp_path / "handed in"
    made.mkdir()
    return made


@pytest.fixture
def grade(folder, tmp_path, capsys):
    """``lumen grade`` on the folder; the status, what was said, and the totals of the table."""

    def run(*options, out="grades.csv"):
        status = main(SETS, ["grade", str(folder), "--out", str(tmp_path / out), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def totals(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["question"] == "total"]
    return {row["submission"]: int(row["points"]) for row in rows}


def put(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.ipynb").write_bytes(content)


# ---- a batch


def test_a_batch_is_graded_and_can_be_made_again(folder, tmp_path, grade):
    put(folder, ann=notebook(RIGHT), bob=notebook(without(TARGETS[0])), cyd=b"no")
    status, said = grade("-j", "2")
    assert status == 0
    right = {"ann": FULL, "bob": FULL - POINTS[TARGETS[0]], "cyd": 0}
    assert totals(tmp_path / "grades.csv") == right
    assert "3/3" in said and "3 submissions" in said and "cyd: the file is not JSON" in said
    for end in (".csv", ".xml", ".png", ".record"):
        assert (tmp_path / "grades").with_suffix(end).exists() and end in said
    head = json.loads((tmp_path / "grades.record" / "batch.json").read_text())
    assert len(head["seeds"]) == 3 and head["versions"]["torch"]
    assert str(head["seeds"][1]) in said and head["sandbox"] in said

    # the same seeds again, from the record
    record = str(tmp_path / "grades.record" / "batch.json")
    status, _ = grade("--seed-file", record, out="again.csv")
    assert status == 0 and totals(tmp_path / "again.csv") == right
    again = json.loads((tmp_path / "again.record" / "batch.json").read_text())
    assert again["seeds"] == head["seeds"]


def test_what_is_there_is_not_written_over(folder, tmp_path, grade):
    put(folder, cyd=b"no")
    (tmp_path / "grades.csv").write_text("mine")
    status, said = grade()
    assert status == 2 and "--resume" in said and "--force" in said
    assert (tmp_path / "grades.csv").read_text() == "mine"
    assert grade("--force")[0] == 0
    assert totals(tmp_path / "grades.csv") == {"cyd": 0}


def test_a_table_among_the_submissions_is_refused(folder, grade):
    put(folder, cyd=b"no")
    status, said = grade(out="handed in/grades.csv")
    assert status == 2 and "among the submissions" in said
    assert [path.name for path in folder.iterdir()] == ["cyd.ipynb"]


def test_who_has_nothing_is_told_why(folder, tmp_path, grade):
    inside = "\n".join(RIGHT).replace("\n", "\n    ")
    put(folder, other=notebook(["def drop_out(): ...", 'score("dropout", globals())']))
    put(folder, broken=notebook(["import torch", "\n".join([*RIGHT, "def f(:"])]))
    put(folder, wrapped=notebook([f"class All:\n    {inside}"]))
    put(folder, own=notebook(["class Said(Exception): ...", "raise Said"]))
    assert grade("--set", SET)[0] == 0
    kept = {}
    for path in (tmp_path / "grades.record").glob("*-*.json"):
        one = json.loads(path.read_text())
        kept[one["submission"]] = one
    assert kept["other"]["remarks"][0] == f"It answers the set dropout, and {SET} was asked."
    assert kept["broken"]["remarks"][0].endswith(") stopped with SyntaxError.")
    assert kept["broken"]["remarks"][0].startswith("Code cell 2 (")
    assert kept["own"]["remarks"] == [
        "Code cell 2 ('raise Said') stopped with an error of another type."
    ]
    for mark in kept["wrapped"]["marks"]:
        assert mark["hint"].startswith("There is no function `")
        assert "outside of any class" in mark["hint"]


def test_shards_together_are_the_whole(folder, tmp_path, grade):
    put(folder, **{f"s{n}": b"no" for n in range(7)})
    seeds = str(tmp_path / "seeds.json")
    found = {}
    for part in (1, 2, 3):
        status, _ = grade("--shard", f"{part}/3", "--seed-file", seeds, out=f"{part}.csv")
        assert status == 0
        table = totals(tmp_path / f"{part}.csv")
        assert not set(table) & set(found)
        found |= table
    assert set(found) == {f"s{n}" for n in range(7)}
    heads = [json.loads((tmp_path / f"{n}.record/batch.json").read_text()) for n in (1, 2, 3)]
    assert heads[0]["seeds"] == heads[1]["seeds"] == heads[2]["seeds"]
    assert os.stat(seeds).st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "options, words",
    [
        (["--set", "norm"], "no set 'norm'; there are: shapes"),
        (["-j", "0"], "-j wants 1 or more, got 0"),
        (["--shard", "3/2", "--seed-file", "s"], "a part like 2/5, got '3/2'"),
        (["--shard", "0/2", "--seed-file", "s"], "a part like 2/5"),
        (["--shard", "x", "--seed-file", "s"], "a part like 2/5"),
        (["--shard", "1/2"], "--shard needs --seed-file"),
        (["--resume", "--force"], "choose one"),
        (["--resume"], "no batch to go on with"),
        (["--memory", "10"], "1,024 MiB at least, got 10"),
        (["--cell-seconds", "-1"], "cell_seconds must be above 0"),
        (["--private", "away.py"], "there is no file away.py"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(folder, tmp_path, grade, options, words):
    put(folder, cyd=b"no")
    status, said = grade(*options)
    assert status == 2 and words in said
    assert not (tmp_path / "grades.csv").exists()


def test_an_empty_folder_and_a_missing_one_are_errors(folder, tmp_path, grade, capsys):
    status, said = grade()
    assert status == 2 and "no notebook (.ipynb)" in said
    assert main(SETS, ["grade", str(tmp_path / "away"), "--out", str(tmp_path / "x.csv")]) == 2
    assert "there is no" in capsys.readouterr().err
    out = str(tmp_path / "away" / "x.csv")
    put(folder, cyd=b"no")
    assert main(SETS, ["grade", str(folder), "--out", out]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_level_below_the_best_is_told_and_can_be_refused(folder, grade, monkeypatch):
    put(folder, cyd=b"no")
    monkeypatch.setattr("lumen.grading.sandbox.shutil.which", lambda name: None)
    status, said = grade("--require-sandbox")
    assert status == 2 and "refuses level 3" in said
    status, said = grade()
    assert status == 0 and "install the package bubblewrap" in said
    assert said.count("not safe against forged grades") == 2


def test_at_level_2_a_folder_that_others_can_read_is_refused(folder, tmp_path, grade):
    boxes.need(2)
    put(folder, cyd=b"no")
    monkey = [path for path in (tmp_path, *tmp_path.parents) if path.stat().st_uid == os.getuid()]
    modes = [(path, path.stat().st_mode) for path in monkey]
    try:
        for path in (folder, *monkey):
            path.chmod(path.stat().st_mode | 0o055)
        status, said = grade("--sandbox", "2")
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert status == 2 and "chmod go-rwx" in said


def test_at_level_1_a_folder_among_the_systems_files_is_refused(folder, grade, monkeypatch):
    boxes.need(1)
    put(folder, cyd=b"no")
    monkeypatch.setattr("lumen.grading.sandbox._seen", lambda: [*SEEN, str(folder.parent)])
    status, said = grade("--sandbox", "1")
    assert status == 2 and f"level 1 shows {folder}" in said


# ---- stopped, and resumed


def begin(folder, out, *options):
    words = [sys.executable, "-m", "lumen.exercises", "grade", str(folder), "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen([*words, *options], cwd=ROOT, env=environment, stdout=pipe, text=True)


def test_a_thousand_submissions_killed_on_the_way_lose_none_and_none_is_graded_twice(
    folder, tmp_path
):
    names = {f"s{n:03}" for n in range(1000)}
    put(folder, **dict.fromkeys(names, b"not json"))
    out, record = tmp_path / "grades.csv", tmp_path / "grades.record"
    running = begin(folder, out, "-j", "2", "--set", SET)
    for _ in range(300):
        running.stdout.readline()
    running.kill()
    running.wait()
    running.stdout.close()
    assert not out.exists()
    kept = {path: path.stat().st_mtime_ns for path in record.glob("s*.json")}
    assert 300 <= len(kept) < 1000

    running = begin(folder, out, "-j", "2", "--set", SET, "--resume")
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert f"{len(kept)} of 1000 are graded already" in said
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert set(totals(out)) == names
    assert len(list(record.glob("s*.json"))) == 1000
    with open(out, encoding="utf-8") as file:
        assert sum(1 for _ in file) == 1 + 1000 * (len(TARGETS) + 1)


def test_the_stop_button_finishes_what_is_under_way(folder, tmp_path):
    put(folder, a=notebook([*RIGHT, "while True: pass"]), **{f"b{n}": b"" for n in range(9)})
    out = tmp_path / "grades.csv"
    running = begin(folder, out, "--set", SET, "--cell-seconds", "4")
    record = tmp_path / "grades.record" / "batch.json"
    while not record.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == command.INTERRUPTED and not out.exists()
    assert len(list(record.parent.glob("a-*.json"))) == 1

    running = begin(folder, out, "--set", SET, "--cell-seconds", "4", "--resume")
    running.communicate(timeout=120)
    assert totals(out) == {"a": FULL} | {f"b{n}": 0 for n in range(9)}


def test_a_batch_goes_on_with_its_own_seeds_and_set_alone(folder, tmp_path, grade):
    put(folder, cyd=b"no")
    (tmp_path / "other.json").write_text("[0, 1, 2]")
    assert grade("--set", SET)[0] == 0
    status, said = grade("--resume", "--set", SET, "--seed-file", str(tmp_path / "other.json"))
    assert status == 2 and "other seeds" in said
    status, said = grade("--resume", "--set", "dense")
    assert status == 2 and "other --set or --shard" in said
    assert grade("--resume", "--set", SET)[0] == 0


# ---- one notebook


def test_check_says_what_the_notebook_would(folder, capsys):
    put(folder, mine=notebook([*WRONG, f'score("{SET}", globals())', "1 / 0"]))
    assert main(SETS, ["check", str(folder / "mine.ipynb")]) == 1
    said = capsys.readouterr().out
    where = f"Code cell {len(WRONG) + 1} ('score(\"{SET}\", globals())')"
    assert f"{where} stopped with NameError." in said
    where = f"Code cell {len(WRONG) + 2} ('1 / 0')"
    assert f"{where} stopped with ZeroDivisionError." in said
    assert f"norms.layer: 0 of {POINTS['layer_norm']} points" in said
    assert f"{SET}: 0 of {FULL} points" in said
    put(folder, right=notebook(RIGHT))
    assert main(SETS, ["check", str(folder / "right.ipynb"), "--set", SET]) == 0
    assert "All public checks passed" in capsys.readouterr().out


def test_check_names_what_did_not_end(folder, capsys):
    put(folder, mine=notebook([*RIGHT, "import os; os._exit(1)"]))
    assert main(SETS, ["check", str(folder / "mine.ipynb")]) == 0
    where = f"Code cell {len(RIGHT) + 1} ('import os; os._exit(1)')"
    assert f"{where} ended Python; only its definitions were kept." in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, words",
    [(b"no", "not JSON"), (notebook(["a = 1"]), "answers no set"), (None, "there is no")],
)
def test_check_says_what_it_cannot_check(folder, capsys, content, words):
    if content is not None:
        put(folder, mine=content)
    assert main(SETS, ["check", str(folder / "mine.ipynb")]) == 2
    assert words in capsys.readouterr().err


def test_the_untouched_notebook_is_checked_as_it_lies(capsys):
    assert main(SETS, ["check", str(LEARNER)]) == 1
    said = capsys.readouterr().out
    assert "stopped with" not in said and f"{SET}: 0 of {FULL} points" in said


# ---- private questions and cases

PRIVATE = """
import torch
from lumen.grading.question import Case, Question

def cases(seed):
    return [Case("three", {"x": 3})]

SETS = {"midterm": (Question("midterm.double", "double", 4, cases, lambda x: 2 * x, {}, {}),)}

def longer(seed):
    return [Case("a long row", {"x": torch.arange(9.0), "weight": torch.ones(9)})]

CASES = {"norms.rms": longer}
"""


def test_private_sets_and_cases_are_asked_too(folder, tmp_path, grade):
    (tmp_path / "mine.py").write_text(PRIVATE)
    put(folder, a=notebook(["def double(x):\n    return x + x"]), b=notebook(["double = 3"]))
    options = ("--private", str(tmp_path / "mine.py"))
    assert grade(*options, "--set", "midterm")[0] == 0
    assert totals(tmp_path / "grades.csv") == {"a": 4, "b": 0}
    sets = command._with_private(SETS, tmp_path / "mine.py")
    asked = {q.name: len(q.cases(0)) for q in sets["norms"]}
    before = {q.name: len(q.cases(0)) for q in SETS["norms"]}
    assert {name: asked[name] - before[name] for name in asked if asked[name] != before[name]} == {
        "norms.rms": 1
    }
    assert isinstance(sets["norms"][0], Question)


@pytest.mark.parametrize(
    "text, words",
    [
        ("1 / 0", "could not be run: ZeroDivisionError"),
        ("a = 1", "must define SETS"),
        ("CASES = {'norms.nothing': None}", "no such question"),
    ],
)
def test_a_private_file_that_brings_nothing_is_refused(folder, tmp_path, grade, text, words):
    (tmp_path / "mine.py").write_text(text)
    put(folder, a=b"no")
    status, said = grade("--private", str(tmp_path / "mine.py"))
    assert status == 2 and words in said


@pytest.mark.parametrize(
    "answer", ["torch.zeros(1 << 19)", "torch.zeros(2, dtype=torch.complex64)", "[set()]"]
)
def test_a_private_question_that_nothing_can_fail_is_refused(folder, tmp_path, grade, answer):
    text = PAGE[PAGE.index("# midterm.py") : PAGE.index("def more(seed)")]
    right = "x.square().sum(dim=-1).sqrt()"
    assert right in text
    (tmp_path / "mine.py").write_text(text.replace(right, answer))
    put(folder, a=b"no")
    status, said = grade("--private", str(tmp_path / "mine.py"))
    assert status == 2 and "midterm.norms: the reference's answer to 'a matrix'" in said


# ---- what the instructors' page says

PAGE = (ROOT / "exercises" / "INSTRUCTORS.md").read_text(encoding="utf-8")


def test_the_private_file_of_the_page_is_graded(folder, tmp_path, grade):
    example = PAGE.split("```python\n")[1].split("```")[0]
    (tmp_path / "midterm.py").write_text(example)
    put(folder, a=notebook(["def row_norms(x):\n    return x.norm(dim=-1)"]), b=notebook(["x = 1"]))
    status, _ = grade("--private", str(tmp_path / "midterm.py"), "--set", "midterm")
    assert status == 0 and totals(tmp_path / "grades.csv") == {"a": 5, "b": 0}
    assert len(command._with_private(SETS, tmp_path / "midterm.py")["attention"]) == len(
        SETS["attention"]
    )


def test_every_option_of_the_page_is_one(capsys):
    said = ""
    for name in ("grade", "gradescope-zip"):
        with pytest.raises(SystemExit):
            main(SETS, [name, "--help"])
        said += capsys.readouterr().out
    options = set(re.findall(r"--[a-z][a-z-]+", PAGE)) - {"--help"}
    assert len(options) > 10 and {option for option in options if option not in said} == set()


def test_the_columns_and_verdicts_of_the_page_are_those_of_the_table():
    assert f"`{', '.join(report.COLUMNS)}`" in PAGE
    assert all(f"`{verdict}`" in PAGE for verdict in [*TELLING, "unreadable", "wrong", "nothing"])
    for level, words in NAMES.items():
        assert f"{level} `{words}`" in PAGE or f"{level} {words}" in PAGE


# ---- the bar


def test_the_bar_tells_how_far_it_is_and_how_long_yet(monkeypatch, capsys):
    class Terminal:
        def __init__(self):
            self.said = []

        def isatty(self):
            return True

        def write(self, text):
            self.said.append(text)

        def flush(self):
            pass

    terminal = Terminal()
    monkeypatch.setattr(command.sys, "stderr", terminal)
    clock = iter([0.0, 4.0, 8.0, 300.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    bar = Progress(4, 1, 2)
    bar.step("ann: 3 of 10")
    bar.step("bob: 4 of 10")
    bar.end()
    said = "".join(terminal.said)
    assert "1/4" in said and "2/4, 4.0 s each, about 8 s left" in said
    assert "3/4, 4.0 s each, about 4 s left" in said
    assert capsys.readouterr().out.splitlines() == [
        "1 of 4 are graded already.",
        "ann: 3 of 10",
        "bob: 4 of 10",
    ]


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(SETS, ["--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("check", "grade", "gradescope-zip", "gradescope"))
