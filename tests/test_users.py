"""Users lent to boxes: to one at a time, over batches, and free again however a batch ends."""

import subprocess
import sys

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
