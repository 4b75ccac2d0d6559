"""Inside the box: run the learner's cells, put cases to the learner's functions, send answers back.

    python -m lumen.grading.worker LIMITS ALONE

This process belongs to the learner as soon as the first cell runs, and the judge believes nothing
that it says: a reply is an answer to one case, to be compared like any other. No seed, label,
reference or expected value is ever sent here.
"""

from __future__ import annotations

import ast
import contextlib
import json
import linecache
import os
import re
import resource
import signal
import sys
import types
from collections.abc import Mapping

import torch

from lumen.grading import wire
from lumen.grading.question import run, type_name

# lines that only a notebook understands: orders, which go on behind a backslash, and questions
MAGIC = re.compile(r"^([ \t]*)(?:[%!?](?:.*\\\n)*.*|[\w.]+\?{1,2}[ \t]*)$", re.MULTILINE)
KEPT = re.compile(r"^([ \t]*[\w, \t]+=[ \t]*)[%!](?:.*\\\n)*.*$", re.MULTILINE)
FOREIGN_CELL = re.compile(r"\s*%%(?!(?:time|capture|prun)\b)")
DEFINITIONS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
)


def limit(limits: Mapping[str, int]) -> None:
    """Bounds on this process that it cannot lift again: names of ``RLIMIT_``, and their values."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name.upper()}")
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def offer_to_end_first() -> None:
    """Where memory runs out, the kernel ends what is in the box before the judge and its batch."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def tree_of(source: str) -> ast.Module:
    """A cell as Python; lines that only a notebook understands become ``pass``."""
    try:
        return ast.parse(source)
    except SyntaxError:
        if FOREIGN_CELL.match(source):
            return ast.parse("")
        return ast.parse(KEPT.sub(r"\1None", MAGIC.sub(_passed, source)))


def _passed(lines: re.Match) -> str:
    """As many lines as there were, so that an error names the right one."""
    return f"{lines[1]}pass" + "\n" * lines[0].count("\n")


class Learner:
    """The learner's notebook as it comes to life, cell by cell, in a module of its own."""

    def __init__(self):
        self.module = types.ModuleType("__main__")
        self.module.display = lambda *things, **how: None
        sys.modules["__main__"] = self.module

    def cell(self, number: int, source: str, only_definitions: bool) -> None:
        name = f"<cell {number}>"
        tree = tree_of(source)
        if only_definitions:
            tree.body = [node for node in tree.body if isinstance(node, DEFINITIONS)]
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(tree, name, "exec"), self.module.__dict__)

    def look(self, target: str) -> str:
        """What stands under a name: missing, callable, or the name of its type."""
        try:
            found = self.module.__dict__[target]
        except KeyError:
            return "missing"
        return "callable" if callable(found) else type_name(found)

    def answer(self, request: Mapping) -> dict:
        """The reply to one request: a cell to run, a name to look up, or a case to answer."""
        if request["do"] == "cell":
            try:
                self.cell(request["number"], request["source"], request["only_definitions"])
            except BaseException as error:  # SystemExit too: the cell ends there, not the box
                return {"fault": type_name(error)}
            return {"fault": None}
        if request["do"] == "look":
            return {"found": self.look(request["target"])}
        function = self.module.__dict__.get(request["target"])
        answer = run(function, wire.decode_case(request["case"]))
        return {"answer": wire.encode_answer(answer)}


def _read(source: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = os.read(source, size - len(found))
        if not piece:
            os._exit(0)
        found += piece
    return found


def end_others() -> None:
    """Kill whatever else this user runs here: what a cell started ends with the cell."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def main(limits: str, alone: str) -> None:
    """Serve until the judge hangs up. ``alone`` is 1 where no process but the learner's is near."""
    limit(json.loads(limits))
    offer_to_end_first()
    torch.set_num_threads(1)
    # the learner's input is empty and the output goes nowhere; the wire keeps numbers of its own
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    learner, own = Learner(), os.getpid()
    reply = {"id": "ready"}
    while True:
        if os.getpid() != own:  # a copy that the learner's code forked
            os._exit(0)
        frame = memoryview(wire.to_frame(reply))
        while frame:
            frame = frame[os.write(replies, frame) :]
        request = wire.from_body(_read(requests, wire.body_size(_read(requests, 8))))
        try:
            reply = {"id": request["id"], **learner.answer(request)}
        except BaseException as error:  # a stop button pressed inside, a lying object
            reply = {"id": request["id"], "broken": type_name(error)}
        if alone == "1" and os.getpid() == own:
            end_others()


if __name__ == "__main__":
    main(*sys.argv[1:])
