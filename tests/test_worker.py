"""In the box: cells run as in a notebook, and nothing that a cell does ends the worker's words."""

import resource
import subprocess
import sys
import textwrap

import pytest

from lumen.grading.worker import Learner, tree_of


@pytest.fixture
def learner():
    before = sys.modules["__main__"]
    yield Learner()
    sys.modules["__main__"] = before


def run(learner, *sources, only_definitions=False):
    for number, source in enumerate(sources, 1):
        learner.cell(number, textwrap.dedent(source), only_definitions)
    return learner.module.__dict__


def test_cells_share_one_namespace(learner):
    assert run(learner, "a = 2", "def f(x):\n    return a * x", "b = f(21)")["b"] == 42


def test_the_namespace_is_main_as_in_a_notebook(learner):
    assert run(learner, "import __main__\nx = __main__")["x"] is learner.module
    assert run(learner, "y = __name__")["y"] == "__main__"


def test_what_only_a_notebook_understands_is_passed_over(learner):
    cell = """\
        %matplotlib inline
        if True:
            !pip install nothing
        a = 10 % 3
        """
    assert run(learner, cell, "%%bash\nrm everything")["a"] == 1


@pytest.mark.parametrize(
    "source",
    [
        "%%time\na = 1",
        "\n%%capture out\na = 1",
        "a = 1\ntorch.where?",
        "a = 1\nlen??\n",
        "files = !ls\na = 1",
        "a = 1\nb = %timeit -o len([])",
        "!pip install \\\n    nothing\na = 1",
    ],
)
def test_what_a_notebook_would_still_run_is_run(learner, source):
    assert run(learner, source)["a"] == 1


def test_an_error_behind_a_long_order_names_its_own_line(learner):
    with pytest.raises(ZeroDivisionError) as error:
        run(learner, "!pip install \\\n    nothing\n1 / 0")
    assert error.traceback[-1].lineno == 2  # counted from 0


def test_a_percent_sign_in_a_string_of_a_sound_cell_is_left(learner):
    assert run(learner, 'a = """\n%d\n"""')["a"] == "\n%d\n"


def test_display_is_there_and_silent(learner, capsys):
    run(learner, "display(1, 2)")
    assert capsys.readouterr().out == ""


def test_of_a_cell_that_ended_a_box_only_the_definitions_are_kept(learner):
    source = """\
        import math
        from math import pi as p
        a = 3
        def f():
            return math.floor(p)
        class C:
            pass
        raise SystemExit
        """
    found = run(learner, source, only_definitions=True)
    assert "a" not in found and found["f"]() == 3 and isinstance(found["C"], type)


def test_a_broken_cell_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        tree_of("def broken(:\n    pass")


def test_a_name_is_looked_up_by_what_stands_there(learner):
    run(learner, "def f(): pass\na = 3\nclass Lie:\n    __class__ = int\nb = Lie()")
    assert [learner.look(name) for name in "fabz"] == ["callable", "int", "Lie", "missing"]


@pytest.mark.parametrize("end", ["raise SystemExit(3)", "1 / 0", "raise KeyboardInterrupt", "("])
def test_a_cell_that_raises_is_answered_with_the_type(learner, end):
    request = {"do": "cell", "number": 1, "source": f"a = 1\n{end}", "only_definitions": False}
    names = ("SystemExit", "ZeroDivisionError", "KeyboardInterrupt", "SyntaxError")
    assert learner.answer(request)["fault"] in names


def test_an_error_names_the_learners_line(learner):
    run(learner, "def f(x):\n    return x + unknown")
    case = {"args": [["x", 1]], "kwargs": [], "upstream": None}
    fault = learner.answer({"do": "call", "target": "f", "case": case})["answer"]["fault"]
    assert fault["kind"] == "NameError" and fault["line"] == "line 2: return x + unknown"


def test_limits_can_be_lowered_and_not_lifted():
    code = (
        "import resource\nfrom lumen.grading.worker import limit\n"
        "limit({'nofile': 100, 'core': 0})\nlimit({'nofile': 10_000})\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.RLIM_INFINITY)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("(100, 100)")
    assert resource.getrlimit(resource.RLIMIT_NOFILE) != (100, 100)
