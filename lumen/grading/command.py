"""The command line: ``lumen check``, ``grade``, ``gradescope-zip`` and ``gradescope``.

It knows no question. Whoever calls ``main`` brings the sets; an instructor's private questions and
cases come from a file of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path

import torch

from lumen.grading import report
from lumen.grading.batch import (
    Plan,
    Record,
    Result,
    draw_seeds,
    grade_all,
    read_seeds,
    versions,
    write_whole,
)
from lumen.grading.check import PUBLIC_SEEDS
from lumen.grading.examine import Sitting
from lumen.grading.gradescope import write_zip
from lumen.grading.notebook import Unreadable, set_of
from lumen.grading.question import Array, Foreign, Question, run
from lumen.grading.sandbox import (
    PROMISES,
    Limits,
    NoSandbox,
    Sandbox,
    choose,
    package_folder,
)
from lumen.grading.submissions import find, find_one

Sets = Mapping[str, Sequence[Question]]
SHIPPED = ("torch", "numpy", "matplotlib")
INTERRUPTED = 130


class Refused(Exception):
    """The command cannot be done as it was given; the message is for whoever gave it."""


def main(sets: Sets, arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and return the exit status."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    try:
        return options.do(sets, options)
    except (Refused, NoSandbox, Unreadable, OSError, ValueError) as error:
        print(f"lumen: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lumen", description="Check and grade Lumen's exercises.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="one notebook, as its own checks would, in a box")
    check.add_argument("notebook", type=Path)
    check.add_argument("--set", help="the set it answers, where that cannot be told from it")
    check.set_defaults(do=_check)

    grade = commands.add_parser(
        "grade", help="a folder or an archive of submissions, with secret seeds"
    )
    grade.add_argument("folder", type=Path)
    grade.add_argument("--out", type=Path, required=True, metavar="CSV", help="the table to write")
    grade.add_argument("-j", "--jobs", type=int, default=1, help="how many at the same time")
    grade.add_argument("--set", help="the set to grade; otherwise each notebook tells its own")
    grade.add_argument("--shard", metavar="I/N", help="only the I-th of N parts; needs --seed-file")
    grade.add_argument("--resume", action="store_true", help="go on with a batch that was stopped")
    grade.add_argument(
        "--force", action="store_true", help="throw an earlier batch of that name away"
    )
    grade.set_defaults(do=_grade)

    archive = commands.add_parser("gradescope-zip", help="an autograder to upload to Gradescope")
    archive.add_argument("set")
    archive.add_argument("--out", type=Path, metavar="ZIP", help="default: lumen-SET.zip")
    archive.add_argument("--force", action="store_true", help="write over the file that is there")
    archive.set_defaults(do=_gradescope_zip)

    one = commands.add_parser("gradescope", help="one submission, as the autograder does it")
    one.add_argument("set")
    one.add_argument("submission", type=Path)
    one.add_argument("--results", type=Path, required=True, metavar="JSON")
    one.set_defaults(do=_gradescope)

    for command in (check, grade, one):
        _add_sandbox(command)
    for command in (grade, archive, one):
        command.add_argument("--private", type=Path, metavar="PY", help="more questions or cases")
        command.add_argument(
            "--seed-file",
            type=Path,
            metavar="JSON",
            help="seeds to use; drawn into it if it is new",
        )
    return parser


def _add_sandbox(command: argparse.ArgumentParser) -> None:
    command.add_argument("--sandbox", type=int, choices=(1, 2, 3), help="the level to use")
    command.add_argument("--require-sandbox", action="store_true", help="refuse level 3")
    for field in fields(Limits):
        command.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            metavar="MIB" if field.name in ("memory", "files") else "N",
            help=f"default {field.default:g}",
        )


# ---- the commands


def _check(sets: Sets, options: argparse.Namespace) -> int:
    submission = find_one(options.notebook)
    if submission.problem:
        raise Refused(f"{options.notebook}: {submission.problem}")
    name = options.set or set_of(submission.cells, sets)
    if name is None:
        raise Refused(f"{options.notebook} answers no set that is known; name one with --set")
    questions = _set(sets, name)
    with _sandbox(options) as sandbox:
        sitting = Sitting(submission.cells, sandbox)
        marks = sitting.marks(questions, PUBLIC_SEEDS)
    for remark in sitting.remarks():
        print(report.printable(remark))
    for mark in marks:
        verdict = sitting.verdicts.get(mark.question)
        shown = repr(verdict) if verdict else f"{mark.question}: {mark.verdict}\n{mark.hint}"
        print(f"\n{report.printable(shown)}")
    points, most = sum(m.points for m in marks), sum(m.max_points for m in marks)
    print(f"\n{name}: {points} of {most} points")
    return 0 if points == most else 1


def _grade(sets: Sets, options: argparse.Namespace) -> int:
    if options.jobs < 1:
        raise Refused(f"-j wants 1 or more, got {options.jobs}")
    if options.resume and options.force:
        raise Refused("--resume keeps what is there and --force throws it away: choose one")
    if not options.out.resolve().parent.is_dir():
        raise Refused(f"there is no folder {options.out.resolve().parent} to write the table in")
    if options.out.resolve().is_relative_to(options.folder.resolve()):
        raise Refused(
            f"{options.out} would lie among the submissions and be taken for one:"
            f" write it outside of {options.folder}"
        )
    shard = _shard(options)
    sets = _with_private(sets, options.private)
    if options.set:
        _set(sets, options.set)
    record = Record(options.out.with_name(f"{options.out.stem}.record"))
    submissions = find(options.folder)[shard[0] - 1 :: shard[1]]
    head = _head(options, record)
    with _sandbox(options) as sandbox:
        # the record is closed to another user, which is what a box of level 2 is
        record_too = [record.folder] if sandbox.level == 1 else []
        _refuse_open(sandbox, options.folder, options.private, options.seed_file, *record_too)
        if not options.resume:
            for old in record.folder.glob("*.json"):
                old.unlink()
            record.begin({**head, "sandbox": sandbox.name})
        plan = Plan(sets, head["seeds"], sandbox, options.set)
        results = _run(plan, submissions, record, options.jobs)
    if results is None:
        print(f"Stopped. The same command with --resume goes on: {record.folder}", file=sys.stderr)
        return INTERRUPTED
    report.write_csv(options.out, results)
    report.write_junit(options.out.with_suffix(".xml"), results)
    report.plot(options.out.with_suffix(".png"), results)
    print(f"\n{report.summary(results)}\n")
    print(f"Box: level {sandbox.name} ({PROMISES[sandbox.level]})")
    print(f"Versions: {', '.join(f'{k} {v}' for k, v in versions().items())}")
    print(f"Seeds: {' '.join(map(str, head['seeds']))}, kept in {record.head}")
    print(f"Written: {options.out}, with .xml and .png beside it, and {record.folder}")
    return 0


def _head(options: argparse.Namespace, record: Record) -> dict:
    """What the batch is made with: drawn anew, or taken from the one that goes on."""
    if options.resume:
        head = record.read_head()
        if options.seed_file and list(read_seeds(options.seed_file)) != head["seeds"]:
            raise Refused(f"{options.seed_file} holds other seeds than {record.head}")
        if options.set != head["set"] or options.shard != head["shard"]:
            raise Refused(f"{record.head} is a batch with other --set or --shard")
        return head
    for path in (options.out, record.folder):
        if path.exists() and not options.force:
            raise Refused(f"{path} exists: go on with --resume, or throw it away with --force")
    return {
        "seeds": list(_seeds(options.seed_file)),
        "set": options.set,
        "shard": options.shard,
        "folder": str(options.folder),
        "limits": asdict(_limits(options)),
        "versions": versions(),
    }


def _run(plan: Plan, submissions: Sequence, record: Record, jobs: int) -> list[Result] | None:
    """All results in the order of the submissions, or None where somebody stopped the batch."""
    stop = threading.Event()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, _stopper(stop))
    try:
        kept = sum(record.result(s.name) is not None for s in submissions)
        bar = Progress(len(submissions), kept, jobs)
        for result in grade_all(submissions, plan.grade, record, jobs, stop):
            bar.step(report.line(result))
        bar.end()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    results = [record.result(submission.name) for submission in submissions]
    return None if None in results else results


def _stopper(stop: threading.Event) -> Callable:
    def handle(number, frame):
        if stop.is_set():
            os._exit(INTERRUPTED)  # nothing is lost: a result is on the disk whole or not at all
        stop.set()
        print("\nFinishing what is under way; once more to leave it.", file=sys.stderr)

    return handle


def _gradescope_zip(sets: Sets, options: argparse.Namespace) -> int:
    _set(_with_private(sets, options.private), options.set)
    out = options.out or Path(f"lumen-{options.set}.zip")
    if out.exists() and not options.force:
        raise Refused(f"{out} exists: --force writes over it")
    requirements = [f"{name}=={version(name)}" for name in SHIPPED]
    write_zip(out, options.set, _seeds(options.seed_file), requirements, options.private)
    print(f"Written: {out}, for its maker's eyes: the seeds are in it.")
    return 0


def _gradescope(sets: Sets, options: argparse.Namespace) -> int:
    sets = _with_private(sets, options.private)
    _set(sets, options.set)
    submission = find_one(options.submission)
    with _sandbox(options) as sandbox:
        closed = [package_folder()] if sandbox.level == 2 else []  # level 1 hides what is in it
        _refuse_open(sandbox, options.private, options.seed_file, *closed)
        plan = Plan(sets, _seeds(options.seed_file), sandbox, options.set)
        result = plan.grade(submission)
    write_whole(options.results, json.dumps(report.gradescope(result), indent=1))
    return 0


# ---- what the options mean


def _set(sets: Sets, name: str) -> Sequence[Question]:
    if name not in sets:
        raise Refused(f"there is no set {name!r}; there are: {', '.join(sets)}")
    return sets[name]


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(**{field.name: getattr(options, field.name) for field in fields(Limits)})


def _sandbox(options: argparse.Namespace) -> Sandbox:
    """The highest level there is, saying why each above it is none."""
    sandbox, refused = choose(_limits(options), options.sandbox)
    for reason in refused:
        print(f"lumen: {reason}", file=sys.stderr)
    if refused:
        words = f"level {sandbox.name} is used: {PROMISES[sandbox.level]}"
        print(f"lumen: {words}", file=sys.stderr)
    if sandbox.level == 3 and options.require_sandbox:
        sandbox.__exit__()
        raise Refused("--require-sandbox refuses level 3, and there is no better one here")
    return sandbox


def _refuse_open(sandbox: Sandbox, *paths: Path | None) -> None:
    for path in paths:
        if path is None or sandbox.level == 3 or not sandbox.shows(path):
            continue
        if sandbox.level == 1:
            raise Refused(
                f"level 1 shows {path} to a submission, with the system's own files: move it"
                " to another place, such as a folder in /home or /srv"
            )
        else:
            raise Refused(
                f"level 2 cannot hide {path} from a submission, since others may read it:"
                f" chmod go-rwx {path}"
            )


def _seeds(path: Path | None) -> Sequence[int]:
    if path is None:
        return draw_seeds()
    if not path.exists():
        seeds = draw_seeds()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(list(seeds), file)
    return read_seeds(path)


def _shard(options: argparse.Namespace) -> tuple[int, int]:
    if options.shard is None:
        return 1, 1
    part, _, parts = options.shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise Refused(f"--shard wants a part like 2/5, got {options.shard!r}")
    if not options.seed_file:
        raise Refused(
            "--shard needs --seed-file, the same for all parts, so that all are asked alike"
        )
    return int(part), int(parts)


def _with_private(sets: Sets, path: Path | None) -> Sets:
    """The sets, with what an instructor's file adds: ``SETS`` of its own, or more ``CASES``."""
    if path is None:
        return sets
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    try:
        content = runpy.run_path(str(path))
    except Exception as error:
        raise Refused(f"{path} could not be run: {type(error).__name__}: {error}") from None
    more, cases = content.get("SETS", {}), content.get("CASES", {})
    if not more and not cases:
        raise Refused(f"{path} must define SETS (name: questions) or CASES (question: cases)")
    joined = {**{name: sets[name] for name in sets}, **more}
    known = {question.name for questions in joined.values() for question in questions}
    for name in cases:
        if name not in known:
            raise Refused(f"{path} has cases for {name!r}, and there is no such question")
    joined = {
        name: tuple(_with_cases(question, cases.get(question.name)) for question in questions)
        for name, questions in joined.items()
    }
    for name, questions in joined.items():
        for question in questions:
            if name in more or question.name in cases:
                _refuse_incomparable(question)
    return joined


def _refuse_incomparable(question: Question) -> None:
    """Refuse a question whose right answers could not be told from wrong ones."""
    for case in question.cases(PUBLIC_SEEDS[0]):
        if not _can_be_compared(run(question.reference, case).value):
            raise Refused(
                f"{question.name}: the reference's answer to {case.label!r} is no plain data, or"
                " a tensor too large or of a dtype that is not compared"
            )


def _can_be_compared(value: object) -> bool:
    """Whether packed data crossed with its numbers."""
    if type(value) in (list, tuple):
        return all(map(_can_be_compared, value))
    return type(value) is not Foreign and not (type(value) is Array and value.data is None)


def _with_cases(question: Question, more: Callable | None) -> Question:
    if more is None:
        return question
    public = question.cases
    return replace(question, cases=lambda seed: [*public(seed), *more(seed)])


class Progress:
    """One line for each submission; below them, in a terminal, how far it is and how long yet."""

    def __init__(self, total: int, done: int, jobs: int):
        self.total, self.done, self.jobs = total, done, jobs
        self.first, self.started = done, time.monotonic()
        self.live = sys.stderr.isatty()
        if done:
            print(f"{done} of {total} are graded already.")
        self._show()

    def step(self, line: str) -> None:
        self.done += 1
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        print(line if self.live else f"{self.done}/{self.total} {line}", flush=True)
        self._show()

    def _show(self) -> None:
        if not self.live:
            return
        width = 30
        full = width * self.done // max(self.total, 1)
        bar = "#" * full + "." * (width - full)
        text = f"[{bar}] {self.done}/{self.total}{self._left()}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def _left(self) -> str:
        done = self.done - self.first
        if not done or self.done == self.total:
            return ""
        each = (time.monotonic() - self.started) / done
        seconds = each * (self.total - self.done)
        left = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f", {each:.1f} s each, about {left} left"

    def end(self) -> None:
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
