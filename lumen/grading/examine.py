"""One submission from its first cell to its last mark: boxes opened, questions asked, faults borne.

What hangs, crashes or floods costs only itself. A cell that ends the box is run again in the next
one with its definitions alone, a question that does is lost, and the rest goes on. Time is bounded
for a cell, for a question, and for the whole.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lumen.grading import wire
from lumen.grading.check import ADVICE, Verdict, check, missing
from lumen.grading.question import Answer, Case, Question
from lumen.grading.sandbox import Box, BoxFailed, Limits, Sandbox

TELLING = {
    "time": "It did not come to an end in time. Look for a loop whose condition never becomes"
    " false, and for work that grows faster than its input.",
    "crash": "The process that ran it was ended. Look for a call that quits Python, and for a"
    " recursion or an allocation without bound.",
    "garbled": "What came back could not be read. Return plain tensors and numbers of the size"
    " that is asked for, and leave the process's files alone.",
    "budget": "The time for the whole notebook was spent before this question.",
}
# where the advice of a notebook's own check would not fit
OUTSIDE = {
    "missing": "Give it the name that the exercise does, outside of any class, in a cell that runs"
    " without an error after a restart.",
    "error": "Your function stopped with an error. Restart the kernel and run all cells from the"
    " top: an import or a name that is only in your session is missing here. Then compare your"
    " signature with the one asked for.",
}
BEFALL = {
    "time": "did not come to an end in time; only its definitions were kept",
    "crash": "ended Python; only its definitions were kept",
    "garbled": "disturbed the grading; only its definitions were kept",
    "skipped": "was left out: even its definitions end Python or never end",
}


@dataclass(frozen=True)
class Mark:
    """What one question of one submission is worth.

    ``verdict`` is passed, wrong, nothing, missing, time, crash, garbled, budget or unreadable;
    ``mistake`` the known mistake's id; ``label`` the first case that failed; ``hint`` for the
    learner. Neither holds a value of a case or a word of the learner's own errors.
    """

    question: str
    points: int
    max_points: int
    verdict: str
    mistake: str = ""
    label: str = ""
    hint: str = ""
    seconds: float = 0.0


class Sitting:
    """A learner's notebook under examination.

    ``told`` keeps which cells ended the box, and how; ``faults`` which raised an error, and of
    which type; both by number. A verdict as the notebook itself would show it stands in
    ``verdicts``, where there was one.
    """

    def __init__(self, cells: Sequence[str], sandbox: Sandbox):
        self.cells, self.sandbox = cells, sandbox
        self.limits: Limits = sandbox.limits
        self.told: dict[int, str] = {}
        self.faults: dict[int, str] = {}
        self.verdicts: dict[str, Verdict] = {}
        self._box: Box | None = None
        self._ready: Box | None = None
        self._end = 0.0

    def marks(self, questions: Sequence[Question], seeds: Sequence[int]) -> list[Mark]:
        """A mark for each question, whatever happens."""
        self._ready = self.sandbox.open()
        # the clock runs from here: on a slow machine the start is no fault of the learner's
        self._end = time.monotonic() + self.limits.submission_seconds
        try:
            return [self._mark(question, seeds) for question in questions]
        finally:
            self._close()
            if self._ready:
                self._ready.close()

    def _mark(self, question: Question, seeds: Sequence[int]) -> Mark:
        started = time.monotonic()
        try:
            self._open()
            verdict = self._verdict(question, seeds)
        except BoxFailed as failure:
            self._close()
            seconds = round(time.monotonic() - started, 2)
            kind = failure.verdict
            return Mark(
                question.name, 0, question.points, kind, hint=TELLING[kind], seconds=seconds
            )
        self.verdicts[question.name] = verdict
        kind = "passed" if verdict.ok else verdict.difference.kind
        hint = verdict.hint
        if kind == "missing":
            hint = f"{verdict.difference.detail} {hint}"
        elif hint == ADVICE["error"]:  # it speaks of a line that is shown in a notebook alone
            hint = OUTSIDE["error"]
        return Mark(
            question.name,
            verdict.points,
            verdict.max_points,
            kind if kind in ("passed", "nothing", "missing") else "wrong",
            verdict.mistake or "",
            verdict.label,
            hint,
            round(time.monotonic() - started, 2),
        )

    def _verdict(self, question: Question, seeds: Sequence[int]) -> Verdict:
        deadline = time.monotonic() + self.limits.question_seconds
        found = self._ask({"do": "look", "target": question.target}, deadline).get("found")
        if found == "missing":
            return self._missing(question, f"There is no function `{question.target}`.")
        if found != "callable":
            return self._missing(question, f"`{question.target}` is not a function.")

        def call(case: Case) -> Answer:
            request = {"do": "call", "target": question.target, "case": wire.encode_case(case)}
            return self._answer(self._ask(request, deadline))

        return check(call, question, seeds)

    @staticmethod
    def _missing(question: Question, detail: str) -> Verdict:
        return replace(missing(question, detail), hint=OUTSIDE["missing"])

    def remarks(self) -> tuple[str, ...]:
        """What befell the cells, a line for each that did not run to its end."""
        said = []
        for number in sorted({*self.told, *self.faults}):
            lines = self.cells[number - 1].strip().splitlines()
            where = f"Code cell {number} ({lines[0][:40]!r})"
            if number in self.told:
                said.append(f"{where} {BEFALL[self.told[number]]}.")
            else:
                said.append(f"{where} stopped with {self.faults[number]}.")
        return tuple(said)

    @staticmethod
    def _answer(reply: dict) -> Answer:
        try:
            return wire.decode_answer(reply.get("answer"))
        except wire.Garbled as error:
            raise BoxFailed("garbled", str(error)) from None

    def _ask(self, request: dict, deadline: float) -> dict:
        return self._box.ask(request, min(deadline, self._end) - time.monotonic())

    def _open(self) -> None:
        """A box in which all cells have been run, those that ended one with definitions alone."""
        while self._box is None:
            if time.monotonic() >= self._end:
                raise BoxFailed("budget", "no time is left")
            self._box, self._ready = self._ready or self.sandbox.open(), None
            for number, source in enumerate(self.cells, 1):
                try:
                    self._cell(number, source)
                except BoxFailed as failure:
                    self._close()
                    if time.monotonic() >= self._end:
                        raise BoxFailed("budget", "no time is left") from None
                    # the second time not even the definitions are tried
                    again = number in self.told
                    self.told[number] = "skipped" if again else failure.verdict
                    break

    def _cell(self, number: int, source: str) -> None:
        befell = self.told.get(number)
        if befell == "skipped" or not source.strip():
            return
        deadline = time.monotonic() + self.limits.cell_seconds
        request = {
            "do": "cell",
            "number": number,
            "source": source,
            "only_definitions": befell is not None,
        }
        fault = self._ask(request, deadline).get("fault")
        if isinstance(fault, str):
            # a learner's own type is a learner's own text
            known = isinstance(getattr(builtins, fault, None), type)
            self.faults[number] = fault if known else "an error of another type"

    def _close(self) -> None:
        if self._box:
            self._box.close()
        self._box = None
