"""Results for people and for other programs: a table, JUnit, a picture, a summary in words."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from lumen.grading.batch import Result, write_whole
from lumen.grading.examine import Mark

COLUMNS = (
    "submission",
    "set",
    "question",
    "points",
    "max_points",
    "verdict",
    "mistake",
    "sandbox",
    "seconds",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
TOTAL = "total"
MOST_MISTAKES = 10


def cell(text: str) -> str:
    """A text that a spreadsheet takes for a text: one that opens like a formula gets a quote."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_csv(path: Path, results: Sequence[Result]) -> None:
    """One row for each question of each submission, and a row with the total behind them."""
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(COLUMNS)
    for result in results:
        name = cell(result.submission)
        for mark in result.marks:
            table.writerow(
                (
                    name,
                    result.set,
                    mark.question,
                    mark.points,
                    mark.max_points,
                    mark.verdict,
                    mark.mistake,
                    result.sandbox,
                    f"{mark.seconds:.2f}",
                )
            )
        verdict = "unreadable" if result.problem else "graded"
        table.writerow(
            (
                name,
                result.set,
                TOTAL,
                result.points,
                result.max_points,
                verdict,
                "",
                result.sandbox,
                f"{result.seconds:.2f}",
            )
        )
    write_whole(path, lines.getvalue())


def write_junit(path: Path, results: Sequence[Result]) -> None:
    """The same as JUnit XML: a suite for each submission, a case for each question."""
    root = ElementTree.Element("testsuites")
    for result in results:
        failed = sum(mark.points < mark.max_points for mark in result.marks)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=printable(result.submission),
            tests=str(len(result.marks)),
            failures=str(failed),
            time=f"{result.seconds:.2f}",
        )
        if result.problem or result.remarks:
            words = "\n".join([result.problem, *result.remarks]).strip()
            ElementTree.SubElement(suite, "system-err").text = printable(words)
        for mark in result.marks:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=result.set,
                name=mark.question,
                time=f"{mark.seconds:.2f}",
            )
            if mark.points < mark.max_points:
                what = f"{mark.verdict}: {mark.mistake}" if mark.mistake else mark.verdict
                failure = ElementTree.SubElement(case, "failure", message=what)
                failure.text = printable(f"{mark.label}\n{mark.hint}".strip())
    ElementTree.indent(root)
    write_whole(path, ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def printable(text: str) -> str:
    """The text without what XML and a terminal cannot take."""
    return "".join(c if c.isprintable() or c in "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def line(result: Result) -> str:
    """One submission on one line."""
    name = printable(result.submission)
    if result.problem:
        return f"{name}: 0, {result.problem}"
    lost = [f"{m.question} {m.mistake or m.verdict}" for m in result.marks if not m.points]
    detail = f" ({', '.join(lost)})" if lost else ""
    return f"{name}: {result.points} of {result.max_points}{detail}"


def summary(results: Sequence[Result]) -> str:
    """What an instructor looks at first: the spread of the points, and what went wrong most."""
    if not results:
        return "No submission was graded."
    lines = [f"{len(results)} submissions"]
    for name in sorted({result.set for result in results if result.set}):
        lines += ["", *_spread([result for result in results if result.set == name])]
    unread = [result for result in results if result.problem]
    if unread:
        lines += ["", f"{len(unread)} could not be graded and have 0 points:"]
        lines += [f"  {printable(result.submission)}: {result.problem}" for result in unread]
    lines += _nothing_won([r for r in results if not r.problem and not r.points])
    frequent = mistakes(results)
    if frequent:
        lines += ["", "The most frequent mistakes"]
        width = max(len(f"{question} {mistake}") for (question, mistake), _ in frequent)
        lines += [
            f"  {f'{question} {mistake}':<{width}}  {number:>4}"
            for (question, mistake), number in frequent
        ]
    return "\n".join(lines)


def _nothing_won(results: Sequence[Result]) -> list[str]:
    """Who was graded and has nothing, and why: a person should look at each."""
    lines = []
    for result in results:
        verdicts = ", ".join(dict.fromkeys(mark.verdict for mark in result.marks))
        why = " ".join(result.remarks) or f"all {verdicts}"
        lines.append(f"  {printable(result.submission)}: {printable(why)}")
    return ["", f"{len(lines)} were graded and have 0 points:", *lines] if lines else []


def _spread(results: Sequence[Result]) -> list[str]:
    most = max(result.max_points for result in results)
    points = sorted(result.points for result in results)
    middle = (points[(len(points) - 1) // 2] + points[len(points) // 2]) / 2
    mean = sum(points) / len(points)
    lines = [f"{results[0].set}, points of {most}: mean {mean:.1f}, median {middle:g}"]
    counts = Counter(points)
    unit = max(1, math.ceil(max(counts.values()) / 40))
    for value in range(most + 1):
        bar = "#" * math.ceil(counts[value] / unit)
        lines.append(f"  {value:>3}  {counts[value]:>4}  {bar}".rstrip())
    asked = dict.fromkeys(mark.question for result in results for mark in result.marks)
    width = max(map(len, asked), default=0)
    for question in asked:
        marks = [m for r in results for m in r.marks if m.question == question]
        full = sum(mark.points == mark.max_points for mark in marks)
        lines.append(f"  {question:<{width}}  full marks: {full} of {len(marks)}")
    return lines


def mistakes(results: Sequence[Result]) -> list[tuple[tuple[str, str], int]]:
    """Questions and what was wrong with their answers, the most frequent first."""
    found = Counter(
        (mark.question, mark.mistake or mark.verdict)
        for result in results
        for mark in result.marks
        if mark.points < mark.max_points and not result.problem
    )
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST_MISTAKES]


def plot(path: Path, results: Sequence[Result]) -> None:
    """The spread of the points and the most frequent mistakes, as a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from lumen.book.palette import LIGHT

    frequent = mistakes(results)[::-1]
    figure = Figure(figsize=(7.5, 2.6 + 0.3 * len(frequent)), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    heights = [2.2, max(0.3 * len(frequent), 0.3)]
    above, below = figure.subplots(2, 1, height_ratios=heights)
    shares = [result.points / (result.max_points or 1) for result in results]
    most = max((result.max_points for result in results), default=0) or 1
    counts = Counter(round(share * most) for share in shares)
    above.bar(
        range(most + 1),
        [counts[value] for value in range(most + 1)],
        color=LIGHT["blue"],
        width=0.8,
    )
    above.set_xticks(range(most + 1))
    above.set_xlabel(f"points of {most}")
    above.set_ylabel("submissions")
    names = [f"{question} {mistake}" for (question, mistake), _ in frequent]
    below.barh(names, [number for _, number in frequent], color=LIGHT["quiet"], height=0.7)
    below.set_xlabel("submissions with this mistake")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    above.yaxis.set_major_locator(MaxNLocator(integer=True))
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.savefig(path, metadata={"Software": None})


def gradescope(result: Result) -> dict:
    """One submission in the format that Gradescope reads."""
    tests = [
        {
            "name": mark.question,
            "score": mark.points,
            "max_score": mark.max_points,
            "status": "passed" if mark.points == mark.max_points else "failed",
            "output": _for_learner(mark),
            "visibility": "visible",
        }
        for mark in result.marks
    ]
    words = result.problem or f"{result.points} of {result.max_points} points."
    words = printable("\n".join([words, *result.remarks]))
    return {
        "score": result.points,
        "output": f"{words}\nGraded in a box of level {result.sandbox}.",
        "stdout_visibility": "hidden",
        "execution_time": result.seconds,
        "tests": tests,
    }


def _for_learner(mark: Mark) -> str:
    if mark.points == mark.max_points:
        return "All checks passed."
    where = f'Not yet. The first check that fails: "{mark.label}".' if mark.label else "Not yet."
    return f"{where}\n{mark.hint}"
