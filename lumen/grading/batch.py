"""Many submissions: each graded once, each result on the disk as soon as it is known.

A batch keeps a folder beside its table, closed to others: ``batch.json`` with the secret seeds and
everything else that a second run needs, and one JSON for each submission, written whole or not at
all. So a batch that was stopped goes on where it stood, and can be run again years later.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from lumen.grading.check import PUBLIC_SEEDS
from lumen.grading.examine import Mark, Sitting
from lumen.grading.notebook import set_of
from lumen.grading.question import Question
from lumen.grading.sandbox import NoSandbox, Sandbox
from lumen.grading.submissions import Submission

SECRET_SEEDS = 2
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Result:
    """One submission, graded. ``problem`` says why it could not be, where it could not.

    ``remarks`` say what befell it on the way, for its author as well.
    """

    submission: str
    file: str
    set: str
    problem: str
    marks: tuple[Mark, ...]
    sandbox: str
    seconds: float
    remarks: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.marks)

    @property
    def max_points(self) -> int:
        return sum(mark.max_points for mark in self.marks)


def draw_seeds() -> tuple[int, ...]:
    """The public seed, whose cases kill every known mistake, and secret ones nobody has seen."""
    return (*PUBLIC_SEEDS, *(secrets.randbelow(1 << 31) for _ in range(SECRET_SEEDS)))


def read_seeds(path: Path) -> tuple[int, ...]:
    """The seeds that a file keeps: its own, or those in the record of an earlier batch."""
    try:
        content = json.loads(path.read_text())
        seeds = content["seeds"] if isinstance(content, dict) else content
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"no seeds can be read from {path}: {error}") from None
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int for seed in seeds):
        raise ValueError(f"{path} must hold a list of whole numbers, got {seeds!r:.60}")
    return tuple(seeds)


def versions() -> dict[str, str]:
    """What a result depends on."""
    try:
        own = version("lumen-book")
    except PackageNotFoundError:
        own = "not installed"
    return {"lumen-book": own, "torch": torch.__version__, "python": platform.python_version()}


def write_whole(path: Path, text: str) -> None:
    """The text under that name, all of it or, if this is interrupted, nothing of it."""
    handle, beside = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


class Record:
    """The folder that a batch keeps. Open to nobody but who made it."""

    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def head(self) -> Path:
        return self.folder / "batch.json"

    def begin(self, head: Mapping) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.head, json.dumps(head, indent=1))

    def read_head(self) -> dict:
        try:
            return json.loads(self.head.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(f"there is no batch to go on with in {self.folder}: {error}") from None

    def path_of(self, submission: str) -> Path:
        """A file name that any disk takes, and that no two submissions share."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", submission)[:60].strip("._") or "submission"
        mark = hashlib.sha256(submission.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return self.folder / f"{plain}-{mark}.json"

    def keep(self, result: Result) -> None:
        text = json.dumps(asdict(result), indent=1, ensure_ascii=True)
        write_whole(self.path_of(result.submission), text)

    def result(self, submission: str) -> Result | None:
        """What is kept of a submission. A file that is not whole counts as none."""
        try:
            kept = json.loads(self.path_of(submission).read_text())
            marks = tuple(Mark(**mark) for mark in kept.pop("marks"))
            remarks = tuple(kept.pop("remarks", ()))
            return Result(**kept, marks=marks, remarks=remarks)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


@dataclass(frozen=True)
class Plan:
    """How each submission of a batch is graded."""

    sets: Mapping[str, Sequence[Question]]
    seeds: Sequence[int]
    sandbox: Sandbox
    set_name: str | None = None

    def grade(self, submission: Submission) -> Result:
        """Every question of the submission's set. Never raises for anything that was handed in."""
        started = time.monotonic()
        name, problem = self.set_name, submission.problem
        if not problem and name is None:
            name = set_of(submission.cells, self.sets)
            if name is None:
                problem = "it answers no set that is known; name one with --set"
        questions = self.sets[name] if name else ()
        remarks: tuple[str, ...] = ()
        if problem:
            marks = [Mark(q.name, 0, q.points, UNREADABLE, hint=problem) for q in questions]
        else:
            sitting = Sitting(submission.cells, self.sandbox)
            marks = sitting.marks(questions, self.seeds)
            remarks = (*self._other_set(submission, name, marks), *sitting.remarks())
        seconds = round(time.monotonic() - started, 2)
        return Result(
            submission.name,
            submission.file,
            name or "",
            problem,
            tuple(marks),
            self.sandbox.name,
            seconds,
            remarks,
        )

    def _other_set(self, submission: Submission, name: str, marks: Sequence[Mark]) -> list[str]:
        """A word on a notebook that has none of the functions, and those of another set."""
        other = set_of(submission.cells, self.sets)
        if other in (None, name) or any(mark.verdict != "missing" for mark in marks):
            return []
        return [f"It answers the set {other}, and {name} was asked."]


def grade_all(
    submissions: Sequence[Submission],
    grade: Callable[[Submission], Result],
    record: Record,
    jobs: int,
    stop: threading.Event,
) -> Iterator[Result]:
    """Results as they come, each kept before it is handed on; those already kept are not redone.

    After ``stop`` is set no submission is begun, and those under way are finished.
    """
    rest = [s for s in submissions if record.result(s.name) is None]

    def work(submission: Submission) -> Result:
        result = grade(submission)
        record.keep(result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        running: set[Future] = set()
        try:
            while rest or running:
                while rest and len(running) < jobs and not stop.is_set():
                    running.add(pool.submit(work, rest.pop(0)))
                if not running:
                    return
                done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except NoSandbox:
            stop.set()
            raise
