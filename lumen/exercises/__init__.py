"""The book's exercises: ``check`` asks one question, ``score`` a whole set.

In a notebook, as the last line of a cell::

    check("attention.scaled")(scaled_scores)
    score("attention", globals())
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from lumen.grading.check import PUBLIC_SEEDS, Verdict, missing
from lumen.grading.check import check as judge
from lumen.grading.question import Question, run, type_name


class Sets(Mapping):
    """The questions of each set by its name, which is its module's; each read when asked for."""

    def __init__(self, *names: str):
        self.names = names

    def __getitem__(self, name: str) -> tuple[Question, ...]:
        if name not in self.names:
            raise KeyError(name)
        return import_module(f"lumen.exercises.{name}").QUESTIONS

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


SETS = Sets(
    "shapes",
    "depth",
    "dense",
    "activations",
    "convolution",
    "pooling",
    "recurrence",
    "gates",
    "attention",
    "positions",
    "block",
    "norms",
    "residuals",
    "initialisation",
    "dropout",
    "encoders",
    "decoders",
    "arithmetic",
    "faults",
)


@dataclass(frozen=True, repr=False)
class Score:
    """The verdicts of one set. Shown at the end of a cell, it reads as a table."""

    name: str
    verdicts: tuple[Verdict, ...]

    @property
    def points(self) -> int:
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def max_points(self) -> int:
        return sum(verdict.max_points for verdict in self.verdicts)

    def __repr__(self) -> str:
        rows = [(v.question, v.points, v.max_points, _short(v)) for v in self.verdicts]
        rows.append((self.name, self.points, self.max_points, "points in all"))
        width = max(len(name) for name, *_ in rows)
        lines = [f"{name:<{width}}  {n:>2} of {most:>2}  {note}" for name, n, most, note in rows]
        return "\n".join(lines)


def _short(verdict: Verdict) -> str:
    if verdict.ok:
        return "passed"
    if verdict.difference.kind in ("missing", "nothing"):
        return "nothing yet"
    return f"not yet in {verdict.failed} of {verdict.cases} checks"


def find(name: str) -> Question:
    """The question of that name."""
    for question in SETS.get(str(name).partition(".")[0], ()):
        if question.name == name:
            return question
    questions = [question.name for set_ in SETS.values() for question in set_]
    near = difflib.get_close_matches(str(name), questions, n=3, cutoff=0.5) or sorted(questions)
    raise ValueError(f"there is no question {name!r}; near it: {', '.join(near)}")


@dataclass(frozen=True, repr=False)
class Check:
    """The check of one question, which waits to be called with your function."""

    question: Question
    seeds: Sequence[int]

    def __call__(self, function: Callable) -> Verdict:
        if not callable(function):
            detail = f"That is of type {type_name(function)}, not a function."
            return missing(self.question, detail)
        return judge(partial(run, function), self.question, self.seeds)

    def __repr__(self) -> str:
        return f"{self.question.name} waits for your function: {_call(self.question)}"


def _call(question: Question) -> str:
    return f'check("{question.name}")({question.target})'


def check(name: str, seeds: Sequence[int] = PUBLIC_SEEDS) -> Check:
    """The check of one question: call it with your function, and read the verdict.

    Example:
        >>> from lumen.exercises import check
        >>> check("attention.memory")
        attention.memory waits for your function: check("attention.memory")(score_bytes)
        >>> check("attention.memory")(lambda n, n_heads, batch=1, itemsize=2: ...)
        attention.memory: 0 of 2 points
        Nothing returned yet.
        <BLANKLINE>
        Replace `return ...`. Every path must return.
    """
    if callable(name):
        _misplaced(getattr(name, "__name__", None))
    question = find(name)
    if callable(seeds):
        _misplaced(question.target)
    return Check(question, seeds)


def _misplaced(target: str | None) -> NoReturn:
    """Say where the function goes: behind the name of its question, in brackets of its own."""
    questions = [question for set_ in SETS.values() for question in set_]
    wanted = [question for question in questions if question.target == target] or questions
    raise TypeError(f"{wanted[0].name} waits for your function: {_call(wanted[0])}")


def score(
    set_name: str, namespace: Mapping[str, Any], seeds: Sequence[int] = PUBLIC_SEEDS
) -> Score:
    """Every question of a set, asked of the functions that a notebook's ``globals()`` holds."""
    if set_name not in SETS:
        raise ValueError(f"there is no set {set_name!r}; there are: {', '.join(sorted(SETS))}")
    return Score(
        set_name,
        tuple(
            Check(question, seeds)(namespace[question.target])
            if question.target in namespace
            else missing(question, f"There is no function `{question.target}` yet.")
            for question in SETS[set_name]
        ),
    )
