"""Users lent to boxes: to one at a time, over batches, and free again however a batch ends."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
import time

import pytest

from lumen.grading import users
from lumen.grading.users import Loan, NoUser


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setattr(users, "LOCKS", tmp_path)
    return tmp_path


def test_a_user_is_lent_to_one_at_a_time():
    first, second = Loan(), Loan()
    assert (first.user, second.user) == (users.FIRST, users.FIRST + 1)
    first.end()
    third = Loan()
    assert third.user == users.FIRST
    second.end()
    third.end()


def test_when_all_are_lent_it_is_told(monkeypatch):
    monkeypatch.setattr(users, "LAST", users.FIRST + 1)
    loans = [Loan(), Loan()]
    with pytest.raises(NoUser, match=f"all users from {users.FIRST} to {users.FIRST + 1} are lent"):
        Loan()
    for loan in loans:
        loan.end()


def test_without_a_place_for_the_locks_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(users, "LOCKS", tmp_path / "none")
    with pytest.raises(NoUser, match="no user can be lent: .*No such file"):
        Loan()


def test_another_batch_gets_another_user_and_a_killed_one_gives_its_own_back(locks):
    source = (
        "import pathlib, sys, time\n"
        "from lumen.grading import users\n"
        "users.LOCKS = pathlib.Path(sys.argv[1])\n"
        "loan = users.Loan()\n"
        "print(loan.user, flush=True)\n"
        "time.sleep(600)\n"
    )
    batch = subprocess.Popen(
        [sys.executable, "-c", source, str(locks)], stdout=subprocess.PIPE, text=True
    )
    with batch:
        assert int(batch.stdout.readline()) == users.FIRST
        mine = Loan()
        assert mine.user == users.FIRST + 1
        mine.end()
        batch.kill()
    freed = Loan()
    assert freed.user == users.FIRST
    freed.end()


def test_a_lock_is_closed_to_the_boxes(locks):
    (locks / f"lumen-user-{users.FIRST}").touch(mode=0o644)  # whoever reads a file can lock it
    loan = Loan()
    assert (locks / f"lumen-user-{loan.user}").stat().st_mode & 0o777 == 0o600
    loan.end()


def test_a_number_that_is_somebodys_is_not_lent(monkeypatch):
    def known(number):
        if number != users.FIRST:
            raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", known)
    loan = Loan()
    assert loan.user == users.FIRST + 1
    loan.end()


def headless():
    """Go on in a second thread after the first has ended: /proc calls that a zombie."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    libc = ctypes.CDLL(None)
    libc.pthread_exit(None)


def killing():
    """Kill whatever comes up as this user, the killer among it."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("body", [headless, killing])
def test_no_process_of_a_user_hides_or_defends_itself(body):
    user = users.LAST
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.setgroups([])
            os.setresuid(user, user, user)
            body()
        finally:
            os._exit(0)
    time.sleep(0.5)
    assert users.processes_of(user) == [child]
    users.kill_all_of(user)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert users.processes_of(user) == []


def test_a_folder_deeper_than_python_can_follow_is_removed(tmp_path):
    inside = os.open(tmp_path, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 100):
        os.mkdir("d", dir_fd=inside)
        below = os.open("d", os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    try:
        users.remove(str(tmp_path / "d"))
        assert list(tmp_path.iterdir()) == []
    finally:  # the end of the tests could not either
        subprocess.run(["rm", "-rf", str(tmp_path / "d")])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ["shm", "sem", "msg"])
def test_memory_that_outlives_its_processes_is_removed(kind):
    user, libc = users.LAST, ctypes.CDLL(None)
    make = {
        "shm": lambda: libc.shmget(0, 4096, 0o1600),
        "sem": lambda: libc.semget(0, 1, 0o1600),
        "msg": lambda: libc.msgget(0, 0o1600),
    }[kind]
    child = os.fork()
    if child == 0:
        os.setresuid(user, user, user)
        os._exit(0 if make() >= 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    try:
        rows = (users.Path("/proc/sysvipc") / kind).read_text()
    except OSError:
        pytest.skip("this system does not tell what there is")
    assert f" {user} " in rows
    users.remove_shared_memory_of(user)
    assert f" {user} " not in (users.Path("/proc/sysvipc") / kind).read_text()
