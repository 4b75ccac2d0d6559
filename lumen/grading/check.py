"""What an answer is worth: every case asked, the first difference told, a known mistake named.

``check`` takes a *call*, which puts one case to the learner's function and brings the answer back.
In a notebook that is ``functools.partial(run, function)``; a call that asks another process gives
the same verdict, since all that is judged is plain data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from lumen.grading.question import Answer, Case, Difference, Question, compare, run

PUBLIC_SEEDS = (0,)
WIDTH = 76

ADVICE = {
    "missing": "Run the cell that defines the function, then hand in its name, without brackets"
    " behind it.",
    "nothing": "Replace `return ...`. Every path must return.",
    "changed": "What you are given belongs to the caller, who may need it again. Methods whose name"
    " ends in `_`, and `+=` and its kin, write into the tensor itself: make a new one instead.",
    "error": "Where a line is named, start there: print the shapes and dtypes of what goes into it."
    " Where none is, the call itself failed: compare your signature with the one asked for.",
    "backward": "Your function ran; sending a gradient back through it failed. A step wrote into a"
    " tensor that the way back still needs, or cannot be differentiated. Methods ending in `_`,"
    " `/=` and its kin, and `x[...] =` all write.",
    "wrong error": "Some inputs have no right answer: test for them before any arithmetic, and"
    " raise the error yourself, of the type that is asked for, with words that help the caller.",
    "not refused": "Some inputs have no right answer. Say what makes this one impossible, test for"
    " it before any arithmetic, and raise the error yourself.",
    "type": "The type is part of the answer, since the caller goes on computing with it.",
    "dtype": "The dtype is part of the answer. Look for a cast, and for a tensor that you made"
    " without saying of which dtype.",
    "shape": "Write the shape beside each line, with the sizes of this case, and find the first one"
    " that is not what you meant.",
    "not finite": "Infinity or NaN has grown on the way. Look for the exp of a large number, for a"
    " sum that can be zero under a division, for infinity minus infinity, and for zero times"
    " infinity.",
    "values": "Type and shape are right, the numbers are not. Make an input of this kind that is"
    " small enough for paper, and compare line by line.",
    "number": "The type is right, the number is not. Take sizes small enough for paper, and count"
    " by hand.",
    "gradient": "What goes forward is right, what comes back is not. Look for a step that cuts the"
    " graph, and for a branch that makes NaN and is hidden afterwards.",
}


# what an error's own words give away about its cause
REMARKS = {
    "return_types.max": "A maximum along an axis comes as a pair, the largest values and where they"
    " stand: take the values.",
    "call numpy() on": "Stay in torch from the first line to the last: numpy knows nothing of"
    " gradients, and to detach the tensor would cut them off.",
}


@dataclass(frozen=True, repr=False)
class Verdict:
    """The outcome of one question. Shown at the end of a cell, it reads as its message."""

    points: int
    max_points: int
    ok: bool
    hint: str
    mistake: str | None
    cases: int
    question: str
    difference: Difference | None = None
    label: str = ""
    failed: int = 0

    def __repr__(self) -> str:
        lines = [f"{self.question}: {self.points} of {self.max_points} points"]
        if self.ok:
            return f"{lines[0]}\nAll public checks passed ({self.cases})."
        if self.label:
            failed = f"Not yet in {self.failed} of {self.cases} checks. The first of them,"
            lines += _wrapped(f'{failed} "{self.label}":')
            for line in self.difference.detail.splitlines():
                lines += _wrapped(line, "    ")
        else:
            lines += _wrapped(self.difference.detail)
        return "\n".join([*lines, "", *_wrapped(self.hint)])


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def check(
    call: Callable[[Case], Answer], question: Question, seeds: Sequence[int] = PUBLIC_SEEDS
) -> Verdict:
    """Ask every case of every seed; on failure, look for the known mistake that answers alike."""
    with one_thread():
        cases = [case for seed in seeds for case in question.cases(seed)]
        expected = [run(question.reference, case) for case in cases]
        answers = [call(case) for case in cases]
        differences = [compare(e, a) for e, a in zip(expected, answers, strict=True)]
        failed = [at for at, difference in enumerate(differences) if difference]
        if not failed:
            return Verdict(
                question.points, question.points, True, "", None, len(cases), question.name
            )
        # the failed cases first: they tell most mistakes apart at once
        order = sorted(range(len(cases)), key=lambda at: differences[at] is None)
        mistake = _recognise(question, [(cases[at], answers[at]) for at in order])
    first = failed[0]
    difference, label = differences[first], cases[first].label
    if all(answer.value is None and answer.fault is None for answer in answers):
        difference, label = Difference("nothing", "Nothing returned yet."), ""
    hint = question.mistakes[mistake][1] if mistake else _advice(difference)
    return Verdict(
        0,
        question.points,
        False,
        hint,
        mistake,
        len(cases),
        question.name,
        difference,
        label,
        len(failed),
    )


def _advice(difference: Difference) -> str:
    if difference.kind == "error":
        for words, remark in REMARKS.items():
            if words in difference.detail:
                return remark
    return ADVICE[difference.kind]


def missing(question: Question, detail: str) -> Verdict:
    """The verdict where there is no function to ask."""
    difference = Difference("missing", detail)
    return Verdict(0, question.points, False, ADVICE["missing"], None, 0, question.name, difference)


def _recognise(question: Question, asked: Sequence[tuple[Case, Answer]]) -> str | None:
    """The known mistake that gives these answers in all cases."""
    for name, (wrong, _) in question.mistakes.items():
        if all(compare(run(wrong, case), answer) is None for case, answer in asked):
            return name
    return None


@contextmanager
def one_thread():
    """Torch on one thread: on tiny tensors a second one costs far more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
