"""The box that a learner's notebook runs in, and the ladder of what it can be made of.

1. ``bwrap``: own namespaces for processes, network, mounts and the rest, another user, no
   capabilities, an empty environment, Python read-only, one small tmpfs to write in.
2. ``setpriv``: another user without privileges, for containers that refuse namespaces. Files that
   others may read can be read, and the network is there.
3. ``limits``: only bounds on memory, time and files. *Not safe against forged grades.*

At each level the worker bounds itself before it reads anything of the learner's: address space,
processor time, file size, open files, processes, no core. ``choose`` takes the highest level that
really starts a worker here, and says why the ones above it do not.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lumen.grading import users, wire

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/fonts")
NAMES = {1: "bwrap", 2: "setpriv", 3: "limits"}
PROMISES = {
    1: "own namespaces, another user, no network, Python read-only",
    2: "another user, no privileges; files open to all can be read, the network is there",
    3: "limits only: not safe against forged grades",
}
START = 60.0


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Times in seconds, sizes in MiB."""

    cell_seconds: float = 20.0
    question_seconds: float = 10.0
    submission_seconds: float = 120.0
    memory: int = 2048
    files: int = 64
    processes: int = 64

    def __post_init__(self):
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")
        if self.memory < 1024:
            raise ValueError(f"memory must be 1,024 MiB at least, got {self.memory}")

    def of_process(self) -> dict[str, int]:
        """The bounds that the worker sets on itself."""
        return {
            "as": self.memory << 20,
            "fsize": self.files << 20,
            "cpu": int(self.submission_seconds) + 10,
            "nofile": 256,
            "nproc": self.processes,
            "core": 0,
        }


class NoSandbox(RuntimeError):
    """This level cannot be had here; the message says why."""


class BoxFailed(RuntimeError):
    """The box is gone or not to be believed; ``verdict`` is time, crash or garbled."""

    def __init__(self, verdict: str, message: str):
        super().__init__(message)
        self.verdict = verdict


class Sandbox:
    """The makings of boxes of one level: what they see of the package, and their command line.

    Use as a context: the folder that the boxes read goes when it closes.
    """

    def __init__(self, level: int, limits: Limits):
        if level not in NAMES:
            raise ValueError(f"a sandbox level is one of {sorted(NAMES)}, got {level!r}")
        self.level, self.limits = level, limits
        self.folder = Path(tempfile.mkdtemp(prefix="lumen-box-"))
        self.folder.chmod(0o755)
        copy_package(self.folder / "lumen")
        self.python = _interpreter(level)
        self.paths = [str(self.folder), *_packages()]
        self._ready: list[Box] = []

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *error) -> None:
        for box in self._ready:
            box.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def name(self) -> str:
        return f"{self.level} {NAMES[self.level]}"

    def try_out(self) -> None:
        """Open a box, to know that one can be; it waits for the first submission."""
        self._ready.append(Box(self))

    def open(self) -> Box:
        try:
            return self._ready.pop()
        except IndexError:
            return Box(self)

    def command(self, user: int) -> list[str]:
        limits = json.dumps(self.limits.of_process())
        alone = "0" if self.level == 3 else "1"
        inside = [self.python, "-s", "-B", "-m", "lumen.grading.worker", limits, alone]
        drop = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        drop += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        if self.level == 3:
            return inside
        if self.level == 2:
            return [*drop, *inside]
        if os.geteuid() == 0:
            # root needs no user namespace, and a user of its own outside bounds its processes too
            apart = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
            apart += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
            apart += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            apart += ["--cap-add", "CAP_SETPCAP"]
            inside = [*drop, *inside]
        else:
            apart = ["--unshare-all", "--uid", str(user), "--gid", str(user), "--cap-drop", "ALL"]
        return ["bwrap", *apart, "--die-with-parent", "--new-session", *self._sight(), *inside]

    def _sight(self) -> Iterator[str]:
        """What a box of level 1 sees: the system, Python and the package, read-only, and /tmp."""
        yield from ("--proc", "/proc", "--dev", "/dev")
        size = str(self.limits.files << 20)
        for path in ("/tmp", "/dev/shm"):
            yield from ("--perms", "1777", "--size", size, "--tmpfs", path)
        bound: list[str] = []
        for path in _seen():
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif not any(Path(path).is_relative_to(above) for above in bound):
                bound.append(path)
                yield from _bind(path)
        answers = str(package_folder() / "exercises")
        if any(Path(answers).is_relative_to(above) for above in bound):
            yield from ("--tmpfs", answers)
        yield from _bind(str(self.folder))
        for made in _font_lists():
            yield from ("--ro-bind", str(made), f"/tmp/{made.name}")
        yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp")

    def shows(self, path: Path) -> bool:
        """Whether a submission could read a path that lies on this machine."""
        if self.level == 1:
            return any(path.resolve().is_relative_to(os.path.realpath(p)) for p in _seen())
        return self.level == 3 or readable_at_level_2(path)

    def lend(self) -> users.Loan | None:
        """A user for a box, where it needs one that no other has: wherever root can give it one."""
        if self.level == 3 or os.geteuid() != 0:
            return None
        try:
            return users.Loan()
        except users.NoUser as error:
            raise NoSandbox(str(error)) from None

    def environment(self, scratch: str) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": scratch,
            "TMPDIR": scratch,
            "MPLCONFIGDIR": scratch,
            "MPLBACKEND": "agg",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(self.paths),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }


class Box:
    """One worker in its box. ``ask`` puts a request and waits for the reply with its number."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox
        self._loan = sandbox.lend()
        self.user = self._loan.user if self._loan else users.FIRST
        self.scratch = "/tmp"
        if sandbox.level == 2:
            self._loan.clear()
        try:
            self.said = tempfile.TemporaryFile()  # noqa: SIM115
            if sandbox.level > 1:
                self._make_scratch()
        except OSError as error:
            if self._loan:
                self._loan.end()
            raise NoSandbox(f"{NAMES[sandbox.level]} found no room: {error}") from None
        try:
            self.process = subprocess.Popen(
                sandbox.command(self.user),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                env=sandbox.environment(self.scratch),
                cwd=self.scratch,
                start_new_session=True,
            )
        except OSError as error:
            self._clear()
            raise NoSandbox(f"{NAMES[sandbox.level]} did not start: {error}") from None
        self.channel = wire.Channel(self.process.stdout.fileno(), self.process.stdin.fileno())
        try:
            self._reply("ready", time.monotonic() + START)
        except BoxFailed as failure:
            said = self._last_words()
            self.close()
            raise NoSandbox(f"{NAMES[sandbox.level]} did not start: {said or failure}") from None

    def _make_scratch(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="lumen-scratch-")
        for made in _font_lists():
            shutil.copyfile(made, Path(self.scratch, made.name))
        if self.sandbox.level == 2:
            os.chown(self.scratch, self.user, self.user)

    def ask(self, request: Mapping, seconds: float) -> dict:
        number = os.urandom(8).hex()
        deadline = time.monotonic() + seconds
        try:
            self.channel.send({"id": number, **request}, deadline)
        except wire.Silent:
            raise BoxFailed("time", f"no answer within {seconds:g} s") from None
        except wire.Gone:
            raise BoxFailed("crash", self._end()) from None
        return self._reply(number, deadline)

    def _reply(self, number: str, deadline: float) -> dict:
        started = time.monotonic()
        try:
            reply = self.channel.receive(deadline)
        except wire.Silent:
            raise BoxFailed("time", f"no answer within {deadline - started:.0f} s") from None
        except wire.Gone:
            raise BoxFailed("crash", self._end()) from None
        except wire.Garbled as error:
            raise BoxFailed("garbled", str(error)) from None
        if reply.get("id") != number:
            raise BoxFailed("garbled", "a reply to no request came over the wire")
        return reply

    def _end(self) -> str:
        """How the process ended, in words."""
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "the process closed its wire"
        number = -code if code < 0 else code - 128
        if number in set(signal.Signals):
            return f"the process was ended by {signal.Signals(number).name}"
        return f"the process ended with status {code}"

    def _last_words(self) -> str:
        self.said.seek(0)
        lines = self.said.read(4096).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def close(self) -> None:
        """End everything that lives in the box, and take away what it left."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._clear()

    def _clear(self) -> None:
        self.said.close()
        if self.sandbox.level == 2:
            self._loan.clear()
        if self.sandbox.level > 1:
            users.remove(self.scratch)
        if self._loan:
            self._loan.end()


def readable_at_level_2(path: Path) -> bool:
    """Whether a user of no rights could look into a path, by the modes of it and of all above."""
    path = path.resolve()
    # a folder that can only be entered gives away each file whose name can be guessed
    wanted = 0o005 if path.is_dir() else 0o004
    modes = [path.stat().st_mode & wanted]
    return all(modes) and all(above.stat().st_mode & 0o001 for above in path.parents)


def copy_package(folder: Path) -> None:
    """A copy of the package without any question: what a learner's notebook may import."""
    source = package_folder()
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "exercises"))
    (folder / "exercises").mkdir()
    shutil.copyfile(source / "grading" / "standin.py", folder / "exercises" / "__init__.py")
    compileall.compile_dir(folder, quiet=2)
    for path in (folder, *folder.rglob("*")):  # where it was copied from may be closed to the box
        path.chmod(0o755 if path.is_dir() else 0o644)


def _font_lists() -> list[Path]:
    """Matplotlib's lists of fonts, which every box would otherwise make anew in half a second."""
    import matplotlib

    return sorted(Path(matplotlib.get_cachedir()).glob("fontlist-*.json"))


def _seen() -> list[str]:
    """What every box of level 1 sees, with all that lies below it."""
    seen = [path for path in SYSTEM if os.path.exists(path)]
    return [*seen, os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), *_packages()]


def _bind(path: str) -> Iterator[str]:
    """Show a path read-only where it lies; the folders above it are made anew, open to all."""
    for above in reversed(Path(path).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(above))
    yield from ("--ro-bind", path, path)


def package_folder() -> Path:
    """Where the package lies that grades."""
    return Path(importlib.util.find_spec("lumen").origin).resolve().parent


def _packages() -> list[str]:
    paths = (sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return list(dict.fromkeys(map(os.path.realpath, paths)))


def _interpreter(level: int) -> str:
    """The Python of the boxes: our own, or the system's of the same version where ours is closed.

    At level 1 every path is bound where it lies, so ours is always open there.
    """
    own = os.path.join(os.path.realpath(sys.prefix), "bin", os.path.basename(sys.executable))
    if level != 2 or readable_at_level_2(Path(own)):
        return own
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return system if os.path.exists(system) else own


def choose(limits: Limits, level: int | None = None) -> tuple[Sandbox, list[str]]:
    """The highest level that starts a box here, or the one asked for; and why none above it does.

    Raises:
        NoSandbox: the level asked for cannot be had.
    """
    refused = []
    for candidate in [level] if level else NAMES:
        sandbox = None
        try:
            _needs(candidate)
            sandbox = Sandbox(candidate, limits)
            sandbox.try_out()
            return sandbox, refused
        except NoSandbox as error:
            if sandbox:
                sandbox.__exit__()
            refused.append(f"level {candidate}: {error}")
    raise NoSandbox("; ".join(refused))


def _needs(level: int) -> None:
    if level == 1 and not shutil.which("bwrap"):
        raise NoSandbox("bwrap is missing; install the package bubblewrap")
    if level == 2 and os.geteuid() != 0:
        raise NoSandbox("another user can be taken by root only")
    if (level == 2 or (level == 1 and os.geteuid() == 0)) and not shutil.which("setpriv"):
        raise NoSandbox("setpriv is missing; install the package util-linux")
