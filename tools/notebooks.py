"""Text → notebook: a person edits ``chapters/NN_slug.md``; ``NN_slug.ipynb`` beside it is derived.

    python tools/notebooks.py build [FILE…] [--force]    execute what changed
    python tools/notebooks.py check [FILE…]              do text and notebook agree? (runs nothing)

The same input gives the same bytes: ids are hashes of content, counts run from 1, nothing of the
machine or the hour is kept. A notebook remembers the files of ``lumen`` that it used and a
fingerprint of its outputs. So a change of words costs no execution, and a change of code that the
outputs do not yet know never goes unnoticed.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
import yaml
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.exercises import Mistake, learner_lines  # noqa: E402

FOLDERS = ("chapters", "exercises")
LONGEST_CODE_LINE = 76
SECONDS_A_CELL = 120
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}

HEADER = """\
---
kernelspec: {display_name: Python 3, language: python, name: python3}
lumen:
  seconds: 12
  colab: []
---"""
SET_UP = """\
# Set-up: Colab installs the book's package. Everywhere else this only sets
# one thread, the seed and the style.
import sys

if "google.colab" in sys.modules:
    %%pip install --quiet %s
from lumen.book import setup

setup()"""
SET_UP_INDEX = 1
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "ipython3"},
}

GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)")
STRAY_CELL = re.compile(r"[\s>*+\d.-]*(`{3,}|~{3,})\{(code|raw)-cell\}")
LOOSE_TAGS = re.compile(r":?tags:\s*[^\s\[]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
USED_FILES = """\
__import__("json").dumps(sorted({
    module.__file__
    for name, module in list(__import__("sys").modules.items())
    if name.split(".")[0] == "lumen" and getattr(module, "__file__", None)
}))"""


class Fault(Exception):
    """What a person must mend. The message is complete as it stands."""


@dataclass
class Text:
    """A text that was read: the notebook it makes, not yet run, and where its cells start.

    ``starts`` holds for each cell the index of its first line; ``numbers`` turns an index into
    the line number of the file (the two part where a solution was taken out).
    """

    path: Path
    name: str
    seconds: int
    notebook: nbformat.NotebookNode
    starts: list[int]
    numbers: list[int]

    @property
    def target(self):
        return self.path.with_suffix(".ipynb")

    @property
    def target_name(self):
        return self.name.removesuffix(".md") + ".ipynb"

    def place(self, index, line=1):
        """``file:line`` of a line of a cell. The set-up cell is in no text: it has the title's."""
        line = 1 if index == SET_UP_INDEX else line
        at = min(self.starts[index] + line, len(self.numbers)) - 1
        return f"{self.name}:{self.numbers[at]}"


# Reading


def sources(root, folders=FOLDERS):
    """The numbered texts of the book, in reading order."""
    return sorted(path for folder in folders for path in (root / folder).glob("[0-9]*.md"))


def chosen(root, files):
    """The texts that a command names, or all."""
    known = {path.resolve(): path for path in sources(root)}
    if not files:
        return list(known.values())
    paths = []
    for file in files:
        here, there = Path(file).resolve(), (root / file).resolve()
        if here not in known and there not in known:
            names = ", ".join(_name(path, root) for path in known.values())
            raise Fault(f"{file}: no such text. There are: {names or 'none yet'}")
        paths.append(known.get(here) or known[there])
    return paths


def read(path, root):
    """The text of a chapter or an exercise, checked, as the notebook that it makes."""
    name = _name(path, root)
    owner, branch = repository(root)
    try:
        pairs = _lines(path)
        numbers = [number for _, number in pairs]
        parsed = _parsed(pairs)
        seconds, packages = _header(parsed.metadata)
        starts = _starts(parsed.cells, [line for line, _ in pairs])
        for cell, start in zip(parsed.cells, starts, strict=True):
            _refuse_bad_cell(cell, numbers[start:])
        _refuse_bad_title(parsed.cells, numbers[starts[0] :] if starts else [1])
    except Mistake as mistake:
        raise Fault(f"{name}:{mistake.line}: {mistake.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"{name}: {error}") from None

    title, *rest = parsed.cells
    title.source += "\n\n" + _runs(seconds, name, owner, branch)
    cells = [title, _set_up(packages, owner), *rest]
    _number(cells)
    lumen = {"colab": packages, "seconds": seconds}
    notebook = new_notebook(cells=cells, metadata=METADATA | {"lumen": lumen})
    notebook = nbformat.from_dict(notebook)
    return Text(path, name, seconds, notebook, [starts[0], *starts], numbers)


def repository(root):
    """``OWNER/NAME`` and branch of the repository that ``_config.yml`` names."""
    try:
        said = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]
        return GITHUB.fullmatch(said["url"].rstrip("/").removesuffix(".git"))[1], str(
            said["branch"]
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        wanted = "repository: {url: https://github.com/OWNER/NAME, branch: main}"
        raise Fault(f"_config.yml: wanted `{wanted}`, which Colab's links are made of") from None


def _name(path, root):
    return path.relative_to(root).as_posix()


def _lines(path):
    """Pairs of a line and its number; of an exercise, what the learner gets to see."""
    text = path.read_text(encoding="utf-8")
    if path.parent.name == "exercises":
        return learner_lines(text)
    return [(line, number) for number, line in enumerate(text.split("\n"), 1)]


def _parsed(pairs):
    try:
        return jupytext.reads("\n".join(line for line, _ in pairs) + "\n", fmt="md:myst")
    except Exception as error:  # whatever YAML and jupytext raise, it is the text's mistake
        if loose := next((number for line, number in pairs if LOOSE_TAGS.match(line)), None):
            raise Mistake(loose, "`tags` must be a list, as in `:tags: [hide-input]`") from None
        found = re.search(r"\bat line (\d+)", str(error))
        number = pairs[int(found[1]) - 1][1] if found else 1
        raise Mistake(number, f"this could not be read: {error}") from None


def _header(metadata):
    """Seconds and packages from the front matter."""
    said = metadata.get("lumen")
    if not isinstance(said, dict):
        raise Mistake(1, f"no header, or no `lumen:` in it; a text starts with\n{HEADER}")
    if unknown := sorted(set(said) - {"seconds", "colab"}):
        raise Mistake(1, f"the header knows `seconds` and `colab`, not `{unknown[0]}`")
    seconds, packages = said.get("seconds"), said.get("colab", [])
    if type(seconds) is not int or seconds < 1:
        raise Mistake(1, f"`seconds` in the header must be a whole number, got {seconds!r}")
    if not isinstance(packages, list) or not all(isinstance(name, str) for name in packages):
        raise Mistake(1, f"`colab` in the header must be a list of packages, got {packages!r}")
    return seconds, packages


def _starts(cells, lines):
    """For each cell the index of its first line. Cells come in order and hold lines verbatim."""
    starts, at = [], 0
    for cell in cells:
        cell.source = cell.source.strip("\n")
        wanted = cell.source.split("\n")
        fits = (i for i in range(at, len(lines)) if lines[i : i + len(wanted)] == wanted)
        at = next(fits, at)
        starts.append(at)
        at = min(at + len(wanted), len(lines) - 1)
    return starts


def _refuse_bad_cell(cell, numbers):
    if cell.cell_type == "raw":
        raise Mistake(numbers[0], "a raw cell shows nothing in the book")
    lines = list(zip(cell.source.split("\n"), numbers, strict=False))
    if cell.cell_type == "markdown":
        for line, number in lines:
            if STRAY_CELL.match(line):
                raise Mistake(number, "a code cell in a list, a quote or an indent is not run")
        return
    if not cell.source.strip():
        raise Mistake(numbers[0], "this code cell is empty")
    if unknown := sorted(set(cell.metadata) - {"tags", "mystnb"}):
        raise Mistake(numbers[0], f"a cell's options are `tags`, `mystnb`; not `{unknown[0]}`")
    for line, number in lines:
        if len(line) > LONGEST_CODE_LINE:
            wide = f"this line of code has {len(line)} characters"
            raise Mistake(number, f"{wide}, and the page holds {LONGEST_CODE_LINE}")


def _refuse_bad_title(cells, numbers):
    if not cells or cells[0].cell_type != "markdown" or not re.match(r"# \S", cells[0].source):
        raise Mistake(numbers[0], "there is no title: wanted `# Title` right below the header")
    for line, number in zip(cells[0].source.split("\n")[1:], numbers[1:], strict=False):
        if line.startswith("#"):
            raise Mistake(number, "put `+++` above this heading; the title has its own cell")


def _runs(seconds, name, owner, branch):
    notebook = f"{owner}/blob/{branch}/{name.removesuffix('.md')}.ipynb"
    colab = f"[Open in Colab](https://colab.research.google.com/github/{notebook})"
    return f"**Runs** in about {seconds} s on two CPU cores. {colab}"


def _set_up(packages, owner):
    wanted = [f"lumen-book @ git+https://github.com/{owner}", *packages]
    source = SET_UP % " ".join(f'"{package}"' for package in wanted)
    return new_code_cell(source, metadata={"tags": ["remove-cell"]})


def _number(cells):
    """Ids from content, so that they survive a move; equal cells are told apart by order."""
    seen = Counter()
    for cell in cells:
        content = f"{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{content}\n{seen[content]}".encode()).hexdigest()[:12]
        seen[content] += 1


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


# Running


class _ThisPython(KernelSpecManager):
    """The kernel of the environment that runs the tool, whatever else the machine offers."""

    def get_kernel_spec(self, kernel_name):
        return KernelSpec(resource_dir="", **get_kernel_dict())


def execute(text, root, tell, timeout=SECONDS_A_CELL):
    """Run a text's cells in an empty folder and keep in its notebook what they gave."""
    started, package = time.perf_counter(), _package(root)
    cells = [i for i, cell in enumerate(text.notebook.cells) if cell.cell_type == "code"]
    with tempfile.TemporaryDirectory(prefix="lumen-") as folder:
        places = [str(root), folder, sys.prefix]
        with _kernel(text, root, Path(folder), timeout) as client:
            for count, index in enumerate(cells, 1):
                seconds = time.perf_counter() - started
                tell(f"{text.name}: cell {count} of {len(cells)}, {seconds:.1f} s")
                _run(client, text, index, count, places)
            used = _ask(client, USED_FILES)
    text.notebook.metadata.lumen.depends = _used(package, used, root)
    text.notebook.metadata.lumen.outputs = _fingerprint(text.notebook)


@contextmanager
def _kernel(text, root, folder, timeout):
    """A client with a fresh kernel in an empty folder."""
    empty, log = folder / "empty", folder / "kernel.log"
    empty.mkdir()
    client = NotebookClient(
        text.notebook,
        km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=_ThisPython()),
        timeout=timeout,
        iopub_timeout=60,
        raise_on_iopub_timeout=True,
        record_timing=False,
    )
    place = {"cwd": str(empty), "env": _environment(root)}
    with log.open("w") as stderr:
        try:
            with client.setup_kernel(**place, stderr=stderr, cleanup_kc=True):
                yield client
        except RuntimeError as error:
            lines = log.read_text(errors="replace").splitlines()[-3:]
            words = "".join(f"\n  {line}" for line in lines)
            raise Fault(f"{text.name}: the kernel failed: {error}{words}") from None


def _run(client, text, index, count, places):
    """Run one cell; a ``Fault`` for all that must not be kept."""
    cell, line = text.notebook.cells[index], None
    try:
        client.execute_cell(cell, index, execution_count=count)
        _settle(cell, count)
        said = _unfit(cell, places)
    except CellExecutionError as error:
        said, line = f"{error.ename}: {error.evalue}", _line_of(error, count)
    except CellTimeoutError:
        said = f"this cell ran longer than {client.timeout} s and was stopped"
    except DeadKernelError:
        said = "the kernel died: out of memory, or the code ended its own process"
    if said:
        where = f"code cell [{count}]" + (" (the set-up cell)" if index == SET_UP_INDEX else "")
        if line is not None:
            where += f", line {line}, `{cell.source.splitlines()[line - 1].strip()}`"
        raise Fault(f"{text.place(index, line or 1)}: {where}: {said}")


def _environment(root):
    """One thread and one seed. A plotting backend chosen outside would hide the figures."""
    outside = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    return outside | ENVIRONMENT | {"PYTHONPATH": str(root)}


def _ask(client, expression):
    """The value of an expression in the kernel; leaves no trace in the notebook."""
    message = client.kc.execute("", silent=True, user_expressions={"answer": expression})
    answer = client.wait_for_reply(message)["content"]["user_expressions"]["answer"]
    return json.loads(ast.literal_eval(answer["data"]["text/plain"]))


def _settle(cell, count):
    """Bring a cell's outputs into the one form that is kept."""
    kept = []
    for output in cell.outputs:
        last = kept[-1] if kept else {}
        if output.output_type == last.get("output_type") == "stream" and output.name == last.name:
            last.text += output.text
            continue
        if output.output_type == "execute_result":
            output.execution_count = count
        if output.output_type == "error":
            output.traceback = [f"{output.ename}: {output.evalue}"]
        kept.append(output)
    cell.outputs = kept
    cell.execution_count = count


def _unfit(cell, places):
    """What in a cell's outputs would be different elsewhere, or a warning; None if all is well."""
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stderr":
            return f"this cell wrote to stderr:\n{output.text.rstrip()}"
        data = output.get("data", {}).items()
        shown = [value for kind, value in data if kind.startswith("text/")]
        for said in (output.get("text", ""), output.get("evalue", ""), *shown):
            if place := next((place for place in places if place in said), None):
                return f"this cell shows a path of this machine: {place}"
            if address := ADDRESS.search(said):
                return f"this cell shows `{address[0]}`, which is different in every run"
    return None


def _line_of(error, count):
    """The line of a cell from which an exception came, as IPython's traceback names it."""
    traceback = COLOURS.sub("", error.traceback)
    found = re.search(rf"Cell In\s?\[{count}\], line (\d+)", traceback)
    return int(found[1]) if found else None


def _package(root):
    """File → hash of the whole package, taken before a run: what the run will have used."""
    files = sorted(path for path in (root / "lumen").rglob("*") if path.suffix != ".pyc")
    return {_name(path, root): _digest(path) for path in files if path.is_file()}


def _used(package, modules, root):
    """The modules that a run imported and what lies beside packages: styles, scripts, data."""
    inside = [Path(module) for module in modules if Path(module).is_relative_to(root)]
    names = {_name(path, root) for path in inside}
    folders = {_name(path.parent, root) for path in inside if path.name == "__init__.py"}
    return {
        name: digest
        for name, digest in package.items()
        if name in names or (not name.endswith(".py") and name.rpartition("/")[0] in folders)
    }


def _digest(path):
    if not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]


def _fingerprint(notebook):
    outputs = [cell.get("outputs") for cell in _code(notebook)]
    return hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()[:16]


# Building


def build(root=ROOT, files=(), force=False, timeout=SECONDS_A_CELL, stream=None):
    """Bring notebooks up to date with their texts; returns the faults, one for each text."""
    progress = Progress(stream or sys.stdout)
    root = root.resolve()
    faults = []
    for path in chosen(root, files):
        try:
            progress.say(build_one(path, root, force, timeout, progress.tell))
        except Fault as fault:
            faults.append(str(fault))
            notebook = path.with_suffix(".ipynb")
            kept = "is as it was" if notebook.exists() else "was not made"
            progress.say(f"{_name(notebook, root)}: {kept}, see below")
    return faults


def build_one(path, root=ROOT, force=False, timeout=SECONDS_A_CELL, tell=lambda line: None):
    """One text into its notebook; returns a line that says what was done."""
    text = read(path, root)
    old = _stored(text.target)
    if old and not force and not _stale(text, old, root):
        _carry(old, text.notebook)
        if dumps(text.notebook) == text.target.read_text(encoding="utf-8"):
            return f"{text.target_name}: up to date"
        _write(text.target, dumps(text.notebook))
        return f"{text.target_name}: only words changed, nothing executed"
    started = time.perf_counter()
    execute(text, root, tell, timeout)
    _write(text.target, dumps(text.notebook))
    seconds = time.perf_counter() - started
    done = f"{text.target_name}: {len(_code(text.notebook))} cells executed in {seconds:.1f} s"
    if abs(seconds - text.seconds) > max(2, text.seconds / 3):
        done += f"; the header says {text.seconds}"
    return done


def dumps(notebook):
    """A notebook as the text of its file: keys sorted, one newline at the end."""
    return nbformat.v4.writes(notebook).rstrip("\n") + "\n"


def _stale(text, old, root):
    """Why the outputs of a stored notebook cannot stand for this text; None if they can."""
    new = [(cell.source, _may_raise(cell)) for cell in _code(text.notebook)]
    if new != [(cell.source, _may_raise(cell)) for cell in _code(old)]:
        return "its code is not the text's"
    counts = [cell.execution_count for cell in _code(old)]
    if counts != list(range(1, len(counts) + 1)):
        return f"it was not run from top to bottom: its execution counts are {counts}"
    record = old.metadata.get("lumen", {})
    if record.get("outputs") != _fingerprint(old) or "depends" not in record:
        return "outputs are missing, or are not those that the run gave"
    changed = [name for name in record.depends if _digest(root / name) != record.depends[name]]
    return f"{changed[0]} has changed since it was run" if changed else None


def _may_raise(cell):
    return "raises-exception" in cell.metadata.get("tags", [])


def _carry(old, new):
    """Give a new notebook the outputs of an old one with the same code."""
    for cell, run in zip(_code(new), _code(old), strict=True):
        cell.outputs, cell.execution_count = run.outputs, run.execution_count
    for key in ("depends", "outputs"):
        new.metadata.lumen[key] = old.metadata.lumen[key]


def _stored(path):
    """A notebook as it is stored; None where there is none that can be read."""
    try:
        notebook = nbformat.v4.reads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return notebook if nbformat.validator.isvalid(notebook) else None


def _write(path, text):
    """Write the whole file or nothing of it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class Progress:
    """On a terminal one line that is rewritten while cells run; elsewhere a line for each."""

    def __init__(self, stream):
        self.stream = stream
        self.live = stream.isatty()

    def tell(self, line):
        """What is going on."""
        self._print(line, "" if self.live else "\n")

    def say(self, line):
        """What was done."""
        self._print(line, "\n")

    def _print(self, line, end):
        clear = "\r\x1b[2K" if self.live else ""
        print(clear + line, end=end, file=self.stream, flush=True)


# Checking


def check(root=ROOT, files=()):
    """Where texts and notebooks part, one message for each; runs nothing."""
    root = root.resolve()
    faults = []
    for path in chosen(root, files):
        try:
            text = read(path, root)
        except Fault as fault:
            faults.append(str(fault))
            continue
        if said := _disagreement(text, root):
            faults.append(f"{said}. Run: python tools/notebooks.py build {text.name}")
    return faults + ([] if files else _orphans(root))


def _disagreement(text, root):
    if not text.target.exists():
        return f"{text.name}:1: {text.target_name} is missing"
    old = _stored(text.target)
    if old is None:
        return f"{text.target_name}: this is not a notebook of format 4.5"
    if said := _differing_cell(text, old):
        return said
    if reason := _stale(text, old, root):
        return f"{text.target_name}: {reason}"
    _carry(old, text.notebook)
    if dumps(text.notebook) != text.target.read_text(encoding="utf-8"):
        return f"{text.target_name}: its metadata, ids or layout are not what the tool writes"
    return None


def _differing_cell(text, old):
    """The first cell in which text and notebook differ."""
    cells = text.notebook.cells
    for index, (ours, theirs) in enumerate(zip(cells, old.cells, strict=False)):
        cell = f"{text.target_name}, cell {index + 1} of {len(old.cells)}"
        if ours.cell_type != theirs.cell_type:
            wanted = f"is {theirs.cell_type}, the text has {ours.cell_type} here"
            return f"{text.place(index)}: {cell}, {wanted}"
        if ours.source != theirs.source:
            line, mine, other = _first_difference(ours.source, theirs.source)
            place = f"{text.place(index, line)}: {cell}, line {line}"
            return f"{place}, has `{other}`, the text has `{mine}`"
        if ours.metadata != theirs.metadata:
            options = f"has the options {_plain(theirs)}, the text has {_plain(ours)}"
            return f"{text.place(index)}: {cell}, {options}"
    if len(cells) > len(old.cells):
        return f"{text.place(len(old.cells))}: {text.target_name} ends before this cell"
    if len(cells) < len(old.cells):
        extra = f"cell {len(cells) + 1} of {len(old.cells)}"
        return f"{text.target_name}: {text.name} has no {extra}"
    return None


def _plain(cell):
    return json.dumps(cell.metadata, sort_keys=True, ensure_ascii=False)


def _first_difference(ours, theirs):
    """The number of the first line that differs, and the two lines."""
    mine, other = ours.split("\n"), theirs.split("\n")
    length = max(len(mine), len(other))
    mine, other = (lines + [""] * (length - len(lines)) for lines in (mine, other))
    at = next((i for i in range(length) if mine[i] != other[i]), length - 1)
    return at + 1, mine[at], other[at]


def _orphans(root):
    found = sorted(path for folder in FOLDERS for path in (root / folder).glob("*.ipynb"))
    return [
        f"{_name(path, root)}: there is no {path.stem}.md. Write the text or delete the notebook"
        for path in found
        if not path.with_suffix(".md").exists()
    ]


def main(arguments=None):
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Chapters and exercises: text → notebook.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the book's folder")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="execute what changed, write the notebooks")
    checking = commands.add_parser("check", help="say where texts and notebooks differ")
    for command in (building, checking):
        command.add_argument("files", nargs="*", metavar="FILE", help="texts; all if none")
    building.add_argument("--force", action="store_true", help="execute what did not change, too")
    given = parser.parse_args(arguments)
    try:
        if given.command == "build":
            faults = build(given.root, given.files, given.force)
        else:
            faults = check(given.root, given.files)
            print(f"{len(faults)} disagree." if faults else "Texts and notebooks agree.")
    except Fault as fault:
        faults = [str(fault)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
