"""For runs with nbval: what each notebook took, and a failure where one took too long."""

import json
from collections import defaultdict

import pytest

LONGEST = 25


def pytest_configure(config):
    if config.getoption("--nbval", False):
        config.pluginmanager.register(NotebookTimes(config.rootpath))


class NotebookTimes:
    """Adds up the seconds of each notebook's cells, from whichever worker they are reported."""

    def __init__(self, root):
        self.root = root
        self.seconds = defaultdict(float)

    def pytest_runtest_logreport(self, report):
        notebook = report.nodeid.split("::")[0]
        if report.when == "call" and notebook.endswith(".ipynb"):
            self.seconds[notebook] += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        if any(took > self._longest(name) for name, took in self.seconds.items()):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.seconds:
            terminalreporter.section("seconds for each notebook")
        for name, took in sorted(self.seconds.items()):
            line = f"{name}: {took:.1f} s, its header says {self._said(name)} s"
            slow = took > self._longest(name)
            verdict = f". TOO SLOW: the limit is {self._longest(name):g} s" if slow else ""
            terminalreporter.write_line(line + verdict, red=slow)

    def _said(self, name):
        notebook = json.loads((self.root / name).read_text(encoding="utf-8"))
        return notebook["metadata"].get("lumen", {}).get("seconds", 0)

    def _longest(self, name):
        return max(LONGEST, 2 * self._said(name))
