"""What was handed in: a folder or an archive of a course system, as one notebook for each learner.

A learner is a notebook, a folder or an archive that stands directly in what is given. Where that
holds nothing but one folder or one archive, as exports of course systems do, the learners are in
there. Archives are read in memory, up to a size; nothing is unpacked to the disk.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lumen.grading.notebook import MOST_NOTEBOOK, Unreadable, code_cells

MOST_ARCHIVE = 200 << 20
MOST_MEMBERS = 20_000
DEEPEST_ARCHIVE = 4
MOST_ARCHIVES = 20
NOISE = (".ipynb_checkpoints", "__MACOSX", "__pycache__")
# what course systems and instructors lay beside what was handed in
ATTENDANT = (".txt", ".csv", ".md")


@dataclass(frozen=True)
class Submission:
    """One learner's notebook: a name, what was read, and why it cannot be graded where it cannot.

    ``file`` says where it lay, as text for people.
    """

    name: str
    file: str
    cells: tuple[str, ...] = ()
    problem: str = ""


class Entry:
    """A file, folder or archive, on the disk or in an archive, that need not be opened yet."""

    def __init__(self, name: str, read: Callable[[], bytes] | None, children=None, where=""):
        self.name, self.where = name, where or name
        self.read = read
        self._children = children

    @property
    def is_notebook(self) -> bool:
        return self._children is None and self.name.lower().endswith(".ipynb")

    @property
    def holds(self) -> bool:
        """Whether it can hold others: a folder, or an archive."""
        return self._children is not None

    @property
    def is_loose(self) -> bool:
        """Whether it was handed in and is nothing that can be graded: a scan, say, or a script."""
        return not (self.holds or self.is_notebook or self.name.lower().endswith(ATTENDANT))

    def children(self) -> list[Entry]:
        found = self._children() if self._children else []
        return sorted((e for e in found if not _is_noise(e.name)), key=lambda e: e.name)


def _is_noise(name: str) -> bool:
    return name.startswith(".") or name in NOISE


def _is_archive(name: str) -> bool:
    return name.lower().endswith(".zip")


def _on_disk(path: Path) -> Entry:
    if path.is_dir() and not path.is_symlink():
        return Entry(
            path.name, None, lambda: [_on_disk(child) for child in path.iterdir()], str(path)
        )
    read = _reader(path)
    if _is_archive(path.name):
        return Entry(path.name, read, lambda: _in_archive(_all_of(read), 1, str(path)), str(path))
    return Entry(path.name, read, None, str(path))


def _reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        # a link could point at a file of the grader's, a pipe would never end
        if path.is_symlink() or not path.is_file():
            raise Unreadable("it is a link or no plain file")
        most = MOST_ARCHIVE if _is_archive(path.name) else MOST_NOTEBOOK
        with open(path, "rb") as file:
            return _whole(file, most)

    return read


def _whole(file, most: int) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise Unreadable(f"the file is larger than {most >> 20} MiB")
    return content


def _all_of(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None


def _in_archive(content: bytes, depth: int, where: str) -> list[Entry]:
    if depth > DEEPEST_ARCHIVE:
        raise Unreadable(f"archives lie more than {DEEPEST_ARCHIVE} deep in one another")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise Unreadable("it is not a zip archive that can be read") from None
    if len(members) > MOST_MEMBERS:
        raise Unreadable(f"the archive has more than {MOST_MEMBERS:,} members")
    tree: dict = {}
    for info in members:
        parts = [p for p in PurePosixPath(info.filename.replace("\\", "/")).parts if p != "/"]
        parts = [part for part in parts if part not in (".", "..")]
        if not parts:
            continue
        folder = tree
        for part in parts[:-1]:
            folder = folder.setdefault(part, {})
            if not isinstance(folder, dict):
                break
        else:
            folder[parts[-1]] = info
    return _tree_entries(archive, tree, depth, where)


def _tree_entries(archive, tree: dict, depth: int, where: str) -> list[Entry]:
    found = []
    for name, what in tree.items():
        place = f"{where}/{name}"
        if isinstance(what, dict):
            make = _later(_tree_entries, archive, what, depth, place)
            found.append(Entry(name, None, make, place))
            continue
        read = _later(_member, archive, what)
        make = _later(_opened, read, depth + 1, place) if _is_archive(name) else None
        found.append(Entry(name, read, make, place))
    return found


def _later(function: Callable, *given) -> Callable:
    return lambda: function(*given)


def _opened(read: Callable[[], bytes], depth: int, where: str) -> list[Entry]:
    return _in_archive(_all_of(read), depth, where)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    most = MOST_ARCHIVE if _is_archive(info.filename) else MOST_NOTEBOOK
    try:
        with archive.open(info) as file:
            return _whole(file, most)
    except Unreadable:
        raise
    except (RuntimeError, zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError):
        raise Unreadable("this member of the archive is damaged or locked") from None


def find(place: Path) -> list[Submission]:
    """One submission for each learner in a folder, an archive, or a single notebook.

    Raises:
        FileNotFoundError: nothing is there.
        Unreadable: no notebook is found in it.
    """
    if not place.exists():
        raise FileNotFoundError(f"there is no {place}")
    top = _on_disk(place.resolve())
    learners = [top] if top.is_notebook else _learners(top)
    found = [submission for entry in learners for submission in _submission(entry)]
    if not found:
        raise Unreadable(f"there is no notebook (.ipynb) and no archive (.zip) in {place}")
    return list(_told_apart(sorted(found, key=lambda submission: submission.name)))


def find_one(place: Path) -> Submission:
    """What one learner handed in: a notebook, or a folder or an archive that holds one.

    Raises:
        FileNotFoundError: nothing is there.
    """
    if not place.exists():
        raise FileNotFoundError(f"there is no {place}")
    return next(_submission(_on_disk(place.resolve())))


def _learners(top: Entry) -> list[Entry]:
    """The entries that are learners, below the wrappings of a course system's export."""
    there = top.children()
    entries = [entry for entry in there if entry.holds or entry.is_notebook]
    while len(entries) == 1 and entries[0].holds:
        try:
            inside = entries[0].children()
        except Unreadable:
            break
        within = [entry for entry in inside if entry.holds or entry.is_notebook]
        if not any(entry.holds for entry in within) and len(within) < 2:
            break
        there, entries = inside, within
    return [*entries, *(entry for entry in there if entry.is_loose)]


def _submission(entry: Entry) -> Iterator[Submission]:
    name = entry.name
    if entry.is_loose:
        yield Submission(name, entry.where, problem="it is no notebook (.ipynb)")
        return
    for end in (".ipynb", ".zip"):
        if name.lower().endswith(end):
            name = name[: -len(end)]
    try:
        notebooks = [entry] if entry.is_notebook else list(_notebooks(entry, []))
    except Unreadable as problem:
        yield Submission(name, entry.where, problem=str(problem))
        return
    if not notebooks:
        yield Submission(name, entry.where, problem="there is no notebook in it")
    elif len(notebooks) > 1:
        names = ", ".join(sorted(notebook.name for notebook in notebooks)[:4])
        problem = f"there are {len(notebooks)} notebooks in it, which one counts? ({names})"
        yield Submission(name, entry.where, problem=problem)
    else:
        yield _read(name, notebooks[0])


def _notebooks(entry: Entry, archives: list[Entry]) -> Iterator[Entry]:
    if _is_archive(entry.name) and entry.holds:
        archives.append(entry)
        if len(archives) > MOST_ARCHIVES:
            raise Unreadable(f"more than {MOST_ARCHIVES} archives lie in it")
    for child in entry.children():
        if child.is_notebook:
            yield child
        elif child.holds:
            yield from _notebooks(child, archives)


def _read(name: str, entry: Entry) -> Submission:
    try:
        return Submission(name, entry.where, tuple(code_cells(_all_of(entry.read))))
    except Unreadable as problem:
        return Submission(name, entry.where, problem=str(problem))


def _told_apart(submissions: list[Submission]) -> Iterator[Submission]:
    """The same, with a number behind each name that was there before."""
    used: set[str] = set()
    for submission in submissions:
        name, number = submission.name, 1
        while name in used:
            number += 1
            name = f"{submission.name} ({number})"
        used.add(name)
        yield Submission(name, submission.file, submission.cells, submission.problem)
