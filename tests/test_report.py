"""Reports: what a spreadsheet, a build server, Gradescope and a person get to see."""

import csv
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib.image
import pytest

from lumen.grading import report
from lumen.grading.batch import Result
from lumen.grading.examine import Mark

FULL = Mark("norms.layer", 2, 2, "passed", seconds=0.1)
LOST = Mark("norms.rms", 0, 1, "wrong", "biased", "a far row", "Look at the mean.", 0.2)
HUNG = Mark("norms.rms", 0, 1, "time", hint="It did not come to an end.")


def result(name, *marks, problem=""):
    return Result(name, f"{name}.ipynb", "norms", problem, marks, "1 bwrap", 1.25)


RESULTS = [
    result("Ann Öz", FULL, LOST),
    result("bob", FULL, HUNG),
    result("cyd", FULL, LOST),
    result("dee", problem="the file is empty"),
]


def test_the_table_has_a_row_for_each_question_and_a_total(tmp_path):
    report.write_csv(tmp_path / "x.csv", RESULTS)
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == report.COLUMNS
    assert rows[2] == [
        "Ann Öz",
        "norms",
        "norms.rms",
        "0",
        "1",
        "wrong",
        "biased",
        "1 bwrap",
        "0.20",
    ]
    assert rows[3] == ["Ann Öz", "norms", "total", "2", "3", "graded", "", "1 bwrap", "1.25"]
    assert [row[5] for row in rows if row[2] == "total"] == ["graded"] * 3 + ["unreadable"]


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", "\t=1"])
def test_a_name_is_no_formula(tmp_path, name):
    report.write_csv(tmp_path / "x.csv", [result(name, FULL)])
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1][0] == f"'{name}"


def test_who_has_nothing_is_named_with_what_befell(tmp_path):
    none = Mark("norms.layer", 0, 2, "missing"), Mark("norms.rms", 0, 1, "nothing")
    remark = "Code cell 1 ('\x1bdef f(') stopped with SyntaxError."
    told = replace(result("bob", *none), remarks=(remark,))
    results = [result("ann", *none), told, *RESULTS]
    said = report.summary(results)
    assert "2 were graded and have 0 points:" in said
    assert "  ann: all missing, nothing\n" in said
    assert f"  bob: {report.printable(remark)}\n" in said and "\x1b" not in said
    assert "have 0 points:\n  ann" not in report.summary(RESULTS)
    report.write_junit(tmp_path / "x.xml", results)
    found = ElementTree.parse(tmp_path / "x.xml").getroot().findall("testsuite/system-err")
    assert [element.text for element in found] == [report.printable(remark), "the file is empty"]
    assert report.printable(remark) in report.gradescope(told)["output"]


def test_junit_counts_what_failed_and_says_why(tmp_path):
    report.write_junit(tmp_path / "x.xml", [*RESULTS, result("\x1b[2J\0", LOST)])
    suites = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert [(s.get("tests"), s.get("failures")) for s in suites][:4] == [
        ("2", "1"),
        ("2", "1"),
        ("2", "1"),
        ("0", "0"),
    ]
    failure = suites[0][1][0]
    assert failure.get("message") == "wrong: biased"
    assert failure.text == "a far row\nLook at the mean."
    assert suites[3][0].text == "the file is empty"


def test_a_line_says_the_points_and_what_was_lost():
    assert report.line(RESULTS[0]) == "Ann Öz: 2 of 3 (norms.rms biased)"
    assert report.line(RESULTS[3]) == "dee: 0, the file is empty"
    assert report.line(result("\x1b[2J", FULL)) == "\N{REPLACEMENT CHARACTER}[2J: 2 of 2"


def test_the_summary_shows_the_spread_and_the_frequent_mistakes():
    text = report.summary(RESULTS)
    assert "4 submissions" in text and "mean 1.5, median 2" in text
    assert "    2     3  ###" in text and "    0     1  #" in text
    assert "norms.rms    full marks: 0 of 3" in text
    assert text.index("norms.rms biased") < text.index("norms.rms time")
    assert "dee: the file is empty" in text
    assert report.summary([]) == "No submission was graded."


def test_mistakes_are_counted_with_the_most_frequent_first():
    assert report.mistakes(RESULTS) == [(("norms.rms", "biased"), 2), (("norms.rms", "time"), 1)]


def test_many_submissions_have_a_bar_that_fits():
    many = [result(f"s{n}", FULL) for n in range(1000)]
    assert max(map(len, report.summary(many).splitlines())) < 80


@pytest.mark.parametrize("results", [RESULTS, RESULTS[:1], [RESULTS[3]], []])
def test_the_picture_is_drawn_for_any_batch(tmp_path, results):
    report.plot(tmp_path / "x.png", results)
    pixels = matplotlib.image.imread(tmp_path / "x.png")
    assert pixels.shape[1] == 900 and (pixels[..., :3].min(axis=-1) < 0.7).any()


def test_gradescope_gets_scores_and_no_word_of_the_hidden_cases():
    given = report.gradescope(RESULTS[0])
    assert (given["score"], given["stdout_visibility"]) == (2, "hidden")
    assert [(t["name"], t["score"], t["max_score"], t["status"]) for t in given["tests"]] == [
        ("norms.layer", 2, 2, "passed"),
        ("norms.rms", 0, 1, "failed"),
    ]
    assert given["tests"][0]["output"] == "All checks passed."
    assert "a far row" in given["tests"][1]["output"]
    assert "level 1 bwrap" in given["output"]
    assert "the file is empty" in report.gradescope(RESULTS[3])["output"]
