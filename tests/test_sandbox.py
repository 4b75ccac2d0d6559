"""The ladder: what a box of each level can and cannot do, measured from inside it."""

import os
import socket
import time

import pytest

from lumen.grading import sandbox as module
from lumen.grading import users
from lumen.grading.sandbox import (
    BoxFailed,
    Limits,
    NoSandbox,
    Sandbox,
    choose,
    readable_at_level_2,
)
from tests import boxes

ROOT = os.geteuid() == 0


@pytest.fixture(scope="module", params=[1, 2], ids=["bwrap", "setpriv"])
def makings(request):
    boxes.need(request.param)
    with Sandbox(request.param, Limits(cell_seconds=20, files=8)) as made:
        yield made


@pytest.fixture(scope="module")
def box(makings):
    opened = makings.open()
    yield opened
    opened.close()


def cell(box, source, seconds=20.0):
    request = {"do": "cell", "number": 1, "source": source, "only_definitions": False}
    return box.ask(request, seconds)["fault"]


def value(box, expression):
    """What an expression is in the box, as plain data."""
    assert cell(box, f"def seen():\n    return {expression}") is None
    case = {"args": [], "kwargs": [], "upstream": None}
    return box.ask({"do": "call", "target": "seen", "case": case}, 20)["answer"]["value"]


def test_the_box_is_another_user_without_privileges(box):
    assert cell(box, "import os, torch") is None
    if ROOT or box.sandbox.level == 1:
        assert value(box, "os.getuid()") == box.user >= users.FIRST
    assert value(box, "os.getgroups()") in ([], [box.user], [65534])
    status = value(box, "open('/proc/self/status').read()")
    assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
    assert cell(box, "os.setuid(0)") == "PermissionError"


def test_nothing_of_the_judges_environment_is_there(box, monkeypatch):
    assert cell(box, "import os") is None
    names = value(box, "sorted(os.environ)")
    assert set(names) <= {*box.sandbox.environment("/tmp"), "PWD", "LC_CTYPE"}


def test_the_questions_are_not_in_the_box(box):
    assert cell(box, "import lumen.exercises.norms") == "ModuleNotFoundError"
    assert cell(box, "from lumen.exercises import SETS") == "ImportError"
    assert cell(box, "from lumen.exercises import check, score\ncheck('a.b')(print)") is None
    assert cell(box, "import lumen.norm, lumen.book, matplotlib.pyplot") is None


def test_bounds_stand_in_the_box(box):
    limits = box.sandbox.limits
    cell(box, "import resource as r")
    found = {
        name: value(box, f"r.getrlimit(r.RLIMIT_{name.upper()})")["tuple"]
        for name in limits.of_process()
    }
    assert found == {name: [bound, bound] for name, bound in limits.of_process().items()}


def test_a_box_is_ended_before_the_judge_where_memory_runs_out(box):
    own = "int(open('/proc/self/oom_score_adj').read())"
    assert value(box, own) == 1000
    forked = f"""
import os
r, w = os.pipe()
if os.fork() == 0:
    os.write(w, str({own}).encode())
    os._exit(0)
child = int(os.read(r, 8))
"""
    assert cell(box, forked) is None
    assert value(box, "child") == 1000


def test_a_file_ends_at_its_bound(box):
    source = (
        "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = open('big', 'wb', 0)\nfor _ in range(9):\n    file.write(bytes(1 << 20))"
    )
    assert cell(box, source) == "OSError"


def test_only_the_scratch_can_be_written(box):
    cell(box, "import os, tempfile, lumen, torch")
    assert cell(box, "open('mine', 'w').write('x')") is None
    for path in ("lumen.__file__", "torch.__file__", "'/usr/bin/mine'", "'/etc/mine'", "'/mine'"):
        assert cell(box, f"open({path}, 'a')") in (
            "OSError",
            "PermissionError",
            "FileNotFoundError",
        )
    folder = box.sandbox.folder / "lumen" / "exercises"
    assert cell(box, f"open({str(folder / 'more.py')!r}, 'w')") in ("OSError", "PermissionError")


def test_the_judges_closed_files_cannot_be_seen(box, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "seeds.json").write_text("[7]")
    for mode in (0o755, 0o711):
        tmp_path.chmod(mode)
    cell(box, "import os")
    assert value(box, f"os.path.exists({str(closed / 'seeds.json')!r})") is False


@pytest.mark.parametrize("makings", [1], indirect=True, ids=["bwrap"])
class TestLevel1:
    def test_there_is_no_network(self, box):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            source = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=3)"
            assert cell(box, source) in ("ConnectionRefusedError", "OSError")
            server.settimeout(0.2)
            with pytest.raises(TimeoutError):
                server.accept()

    def test_no_process_but_its_own_is_there(self, box):
        cell(box, "import os")
        assert len(value(box, "[n for n in os.listdir('/proc') if n.isdigit()]")) <= 4

    def test_of_the_disk_only_python_is_there(self, box, tmp_path):
        cell(box, "import os")
        assert value(box, f"os.path.exists({str(tmp_path)!r})") is False
        assert value(box, "os.listdir('/tmp') if os.path.isdir('/tmp') else None") is not None
        for path in ("/etc/passwd", "/home", "/var"):
            assert value(box, f"os.path.exists({path!r})") is False

    def test_the_scratch_and_the_shared_memory_are_small(self, box):
        cell(box, "import os")
        for path in ("/tmp", "/dev/shm"):
            blocks = value(box, f"os.statvfs({path!r}).f_blocks * os.statvfs({path!r}).f_frsize")
            assert blocks == box.sandbox.limits.files << 20


def test_nothing_stays_when_a_box_is_closed(makings):
    box = makings.open()
    source = (
        "import os, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    os.setsid()\n    open('/tmp/left-by-lumen', 'w').close()\n"
        "    time.sleep(600)\n"
    )
    box.channel.send(
        {"id": "1", "do": "cell", "number": 1, "source": source, "only_definitions": False},
        time.monotonic() + 20,
    )
    time.sleep(0.5)
    scratch = box.scratch
    box.close()
    assert not os.path.exists("/tmp/left-by-lumen")
    assert makings.level == 1 or not os.path.exists(scratch)
    end = time.monotonic() + 10
    while users.processes_of(box.user) and time.monotonic() < end:
        time.sleep(0.05)
    assert users.processes_of(box.user) == []


def test_how_a_box_ended_is_told(makings):
    for source, verdict, words in [
        ("import os; os._exit(3)", "crash", "status 3"),
        ("import os; os.kill(os.getpid(), 11)", "crash", "SIGSEGV"),
        ("while True: pass", "time", "no answer within"),
    ]:
        box = makings.open()
        with pytest.raises(BoxFailed, match=words) as caught:
            cell(box, source, seconds=3.0 if verdict == "time" else 20.0)
        assert caught.value.verdict == verdict
        box.close()


def test_boxes_at_the_same_time_do_not_meet(makings):
    # of one batch and of two: a batch at level 2 kills all that its user runs
    with Sandbox(makings.level, makings.limits) as other:
        opened = [makings.open(), makings.open(), other.open()]
        for number, box in enumerate(opened):
            assert cell(box, "import pathlib") is None
            assert cell(box, f"pathlib.Path('mine').write_text('{number}')") is None
        if ROOT:
            assert len({box.user for box in opened}) == 3
        opened.pop().close()
        for number, box in enumerate(opened):
            assert value(box, "pathlib.Path('mine').read_text()") == str(number)
            box.close()


def test_a_box_that_cannot_be_lent_a_user_is_no_sandbox(monkeypatch, tmp_path):
    if not ROOT:
        pytest.skip("only root lends users")
    boxes.need(2)
    monkeypatch.setattr(users, "LOCKS", tmp_path / "none")
    with pytest.raises(NoSandbox, match="no user can be lent: .*No such file"):
        choose(Limits(), 2)


# ---- the choice


def test_the_best_level_is_taken_and_those_above_give_their_reason(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    sandbox, refused = choose(Limits())
    with sandbox:
        assert sandbox.level == 3
    assert "install the package bubblewrap" in refused[0] and len(refused) == 2


def test_a_level_that_is_asked_for_is_taken_or_refused(monkeypatch):
    sandbox, refused = choose(Limits(), 3)
    with sandbox:
        assert (sandbox.level, refused) == (3, [])
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(NoSandbox, match="bwrap is missing"):
        choose(Limits(), 1)


def test_a_user_without_root_gets_no_level_2(monkeypatch):
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    with pytest.raises(NoSandbox, match="root only"):
        choose(Limits(), 2)


def test_a_python_that_does_not_start_is_told(monkeypatch):
    monkeypatch.setattr(module, "_interpreter", lambda level: "/bin/false")
    with pytest.raises(NoSandbox, match="did not start"):
        choose(Limits(), 3)
    monkeypatch.setattr(module, "_interpreter", lambda level: "/no/python")
    with pytest.raises(NoSandbox, match="did not start"):
        choose(Limits(), 3)


@pytest.mark.parametrize("level", [0, 4, "1"])
def test_a_level_is_1_2_or_3(level):
    with pytest.raises(ValueError, match="one of"):
        Sandbox(level, Limits())


@pytest.mark.parametrize("name", ["cell_seconds", "question_seconds", "files", "processes"])
def test_limits_are_above_nothing(name):
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        Limits(**{name: 0})


def test_torch_needs_some_memory():
    with pytest.raises(ValueError, match="1,024 MiB at least, got 100"):
        Limits(memory=100)


def test_whether_others_may_read_is_read_from_all_modes(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    file = folder / "x"
    file.write_text("x")
    above = all(parent.stat().st_mode & 1 for parent in tmp_path.parents)
    tmp_path.chmod(0o755)
    for mode, file_mode, expected in [
        (0o755, 0o644, above),
        (0o711, 0o644, above),
        (0o755, 0o600, False),
        (0o700, 0o644, False),
    ]:
        folder.chmod(mode)
        file.chmod(file_mode)
        assert readable_at_level_2(file) is expected
        assert readable_at_level_2(folder) is (above and mode != 0o700)


def test_the_copy_for_the_box_holds_no_question(tmp_path):
    module.copy_package(tmp_path / "lumen")
    text = "".join(path.read_text() for path in (tmp_path / "lumen" / "exercises").rglob("*.py"))
    assert "class Later" in text and "QUESTIONS" not in text
    assert [p.name for p in (tmp_path / "lumen" / "exercises").glob("*.py")] == ["__init__.py"]


def test_what_a_box_buried_deep_is_taken_away(makings):
    opened = makings.open()
    deep = "import os\nfor _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')"
    assert cell(opened, deep) is None
    scratch = opened.scratch
    opened.close()
    assert makings.level == 1 or not os.path.exists(scratch)


def test_where_no_room_is_left_it_is_told(makings, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.tempfile, "TemporaryFile", full)
    with pytest.raises(NoSandbox, match="found no room: .*No space left"):
        makings.open()


def test_level_1_knows_what_it_shows(tmp_path):
    boxes.need(1)
    with Sandbox(1, Limits()) as made:
        assert made.shows(module.Path("/usr/src/course/midterm.py"))
        assert not made.shows(tmp_path) and not made.shows(module.Path("/srv/course"))
