"""What the README shows runs, and gives what it says."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
SESSIONS = [block for block in BLOCKS if block.startswith(">>> ")]
COMMANDS = re.findall(r'^python -c "(.+)"', README, re.M)


def run_session(text):
    """How many examples a session has, and what went wrong in it."""
    said = []
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    tried = doctest.DocTestRunner(verbose=False).run(test, out=said.append).attempted
    return tried, "".join(said)


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_gives_what_it_shows(session):
    tried, faults = run_session(session)
    assert tried == session.count(">>> ") > 0 and faults == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints(command):
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""
    assert len(run.stdout.splitlines()) > 1


def test_the_weights_of_three_models_are_there_to_paste():
    lines = "".join(SESSIONS).splitlines()
    for weights in ("109,482,240", "124,439,808", "8,030,261,248"):
        assert weights in lines
    assert "import lumen.count as c; print(c.MODELS)" in COMMANDS


def test_a_wrong_session_is_found():
    tried, faults = run_session(">>> 6 * 7\n41\n>>> 1 / 0\n")
    assert tried == 2 and "Got:\n    42" in faults and "ZeroDivisionError" in faults
