"""Users of the machine that boxes run as, lent to one box at a time, and cleared of what they left.

Only root can become another user; a box started by anybody else gets a user by its namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

FIRST, LAST = 64_700, 65_499
LOCKS = Path("/run")


class NoUser(RuntimeError):
    """No user can be lent."""


class Loan:
    """A user that no other box of this machine has, of this batch or of another, until ``end``.

    The loan is a lock on a file, so it ends with the process that took it, however that ends.
    """

    def __init__(self):
        for number in range(FIRST, LAST + 1):
            if has_name(number):
                continue
            try:
                file = open(LOCKS / f"lumen-user-{number}", "a")  # noqa: SIM115
                # whoever can read a file can lock it, so it is closed to the boxes
                os.fchmod(file.fileno(), 0o600)
            except OSError as error:
                raise NoUser(f"no user can be lent: {error}") from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            self.user, self._lock = number, file
            return
        raise NoUser(f"all users from {FIRST} to {LAST} are lent")

    def clear(self) -> None:
        """Take away what ran or was left behind as this user, by a batch that was killed, say."""
        kill_all_of(self.user)
        remove_shared_memory_of(self.user)
        for shared in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"):
            remove_files_of(self.user, Path(shared))

    def end(self) -> None:
        self._lock.close()


def has_name(user: int) -> bool:
    """Whether a number is somebody's already, such as a service's to which the system gave it."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def kill_all_of(user: int) -> None:
    """Kill every process of a user, until none is left: one that forks may outrun a single round.

    The killer is a child that has become that user, so that one ``kill(-1)`` reaches all at once.
    What kills the killer first is killed by number.
    """
    for _ in range(20):
        found = processes_of(user)
        if not found:
            return
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresuid(user, user, user)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        for process in found:
            if _is_of(user, process):  # the number may be another's by now
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def processes_of(user: int) -> list[int]:
    """The processes of a user that can still do something.

    One whose first thread has ended is called a zombie even while its other threads run.
    """
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if _is_of(user, number)]


def _is_of(user: int, process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
    except OSError:
        return False
    dead = "\nState:\tZ" in status and "\nThreads:\t1\n" in status
    return f"\nUid:\t{user}\t" in status and not dead


def remove_shared_memory_of(user: int) -> None:
    """Remove the shared memory, semaphores and queues of System V, which outlive every process."""
    for kind, option in (("shm", "-m"), ("sem", "-s"), ("msg", "-q")):
        try:
            names, *rows = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        except (OSError, ValueError):
            continue
        owner = names.split().index("cuid")
        for row in map(str.split, rows):
            if row[owner] == str(user):
                subprocess.run(["ipcrm", option, row[1]], stderr=subprocess.DEVNULL)


def remove_files_of(user: int, folder: Path) -> None:
    """Remove what a user left directly in a folder that all may write in."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid == user:
                remove(entry.path)


def remove(path: str) -> None:
    """Remove a file or a folder that a stranger filled. ``rm`` takes any depth, Python does not."""
    subprocess.run(["rm", "-rf", "--", path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
