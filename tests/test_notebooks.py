"""Text → notebook, on tiny books: same bytes, nothing run in vain, every mistake placed."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools import exercises, notebooks
from tools.notebooks import Fault

HERE = Path(__file__).resolve().parents[1]

CHAPTER = """\
---
kernelspec: {display_name: Python 3, language: python, name: python3}
lumen:
  seconds: 1
  colab: [scikit-learn]
---

# Tiny

A promise.

**Needs** nothing.

+++

## The bet

Some words.

```{code-cell}
:tags: [hide-input]

import os

print("one")
print("two", flush=True)
len(os.listdir())
```

Words between.

+++ {"tags": ["aside"]}

An aside.

```{code-cell}
from lumen.dense import double

double(21)
```

```{code-cell}
---
mystnb:
  image:
    alt: a curve that falls
---
names = ["OMP_NUM_THREADS", "PYTHONHASHSEED", "HF_HUB_OFFLINE"]
print([os.environ[name] for name in names])
print(os.environ["MPLBACKEND"])
```

```{code-cell}
:tags: [raises-exception]

1 / 0
```

```{code-cell}
double(21)
```

```{code-cell}
double(21)
```
"""

EXERCISE = """\
---
kernelspec: {display_name: Python 3, language: python, name: python3}
lumen:
  seconds: 1
---

# Set

Solve it.

+++

## One

```{code-cell}
def twice(x):
    # solution: return ...
    doubled = x + x
    return doubled
    # end solution


print(twice(2))
```
"""

LUMEN = {
    "_config.yml": "repository: {url: https://github.com/owner/book, branch: main}\n",
    "lumen/__init__.py": "",
    "lumen/dense.py": "def double(x):\n    return 2 * x\n",
    "lumen/conv.py": "",
    "lumen/book/__init__.py": "def setup():\n    pass\n",
    "lumen/book/lumen.mplstyle": "figure.dpi: 100\n",
}


def make_book(root, chapter=CHAPTER):
    write(root, LUMEN | {"chapters/01_tiny.md": chapter, "exercises/01_tiny.md": EXERCISE})
    return root


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def edit_notebook(path, change):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def built(root, *files, **options):
    """Build, demand that nothing failed, return what was said."""
    said = io.StringIO()
    faults = notebooks.build(root, files, stream=said, **options)
    assert faults == []
    return said.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A book that was built once, under an unfit plotting backend; copies are for changing."""
    root = make_book(tmp_path_factory.mktemp("finished") / "book")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        built(root)
    return root


@pytest.fixture
def book(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "book"))


@pytest.fixture
def chapter(book):
    return book / "chapters" / "01_tiny.md"


@pytest.fixture
def no_kernel(monkeypatch):
    """Any execution is an error."""

    def refuse(*arguments):
        raise AssertionError("a kernel was asked for")

    monkeypatch.setattr(notebooks, "execute", refuse)


@pytest.fixture
def runs(monkeypatch):
    """The names of the texts that were executed."""
    names, execute = [], notebooks.execute
    monkeypatch.setattr(
        notebooks, "execute", lambda text, *rest: (names.append(text.name), execute(text, *rest))
    )
    return names


# What a notebook holds


def stored(root, name="chapters/01_tiny.ipynb"):
    return nbformat.read(root / name, as_version=4)


def outputs(cell):
    return [
        output.get("text") or output.get("data", {}).get("text/plain") for output in cell.outputs
    ]


def test_cells_are_the_text_s_with_run_time_and_set_up(finished):
    cells = stored(finished).cells
    kinds = [cell.cell_type for cell in cells]
    assert kinds == ["markdown", "code", "markdown", "code", "markdown", "markdown"] + 5 * ["code"]
    assert cells[0].source == (
        "# Tiny\n\nA promise.\n\n**Needs** nothing.\n\n"
        "**Runs** in about 1 s on two CPU cores. [Open in Colab](https://colab.research.google.com"
        "/github/owner/book/blob/main/chapters/01_tiny.ipynb)"
    )
    assert cells[1].metadata == {"tags": ["remove-cell"]}
    assert cells[1].source.splitlines()[2:] == [
        "import sys",
        "",
        'if "google.colab" in sys.modules:',
        '    %pip install --quiet "lumen-book @ git+https://github.com/owner/book" "scikit-learn"',
        "from lumen.book import setup",
        "",
        "setup()",
    ]
    assert cells[3].metadata == {"tags": ["hide-input"]}
    assert cells[5].metadata == {"tags": ["aside"]}
    assert cells[7].metadata == {"mystnb": {"image": {"alt": "a curve that falls"}}}


def test_cells_ran_in_an_empty_folder_with_one_thread_and_inline_figures(finished):
    cells = stored(finished).cells
    assert outputs(cells[3]) == ["one\ntwo\n", "0"]
    first, second = outputs(cells[7])[0].splitlines()
    assert first == "['1', '0', '1']"
    assert second == "module://matplotlib_inline.backend_inline"


def test_an_expected_exception_is_kept_without_the_machine_s_traceback(finished):
    (error,) = stored(finished).cells[8].outputs
    assert error.traceback == ["ZeroDivisionError: division by zero"]


def test_prints_that_came_in_pieces_are_one_output():
    def printed(text, name="stdout"):
        return nbformat.v4.new_output("stream", name=name, text=text)

    figure = nbformat.v4.new_output("display_data", data={"text/plain": "<Figure>"})
    pieces = [printed("a"), printed("b\n"), printed("c", "stderr"), figure, printed("d")]
    cell = nbformat.v4.new_code_cell("x", outputs=pieces)
    notebooks._settle(cell, 1)
    assert cell.outputs == [printed("ab\n"), printed("c", "stderr"), figure, printed("d")]


def test_nothing_of_the_machine_or_the_hour_is_kept(finished):
    text = (finished / "chapters/01_tiny.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info", "lumen"}
    assert "version" not in notebook["metadata"]["language_info"]
    assert not any("execution" in cell["metadata"] for cell in notebook["cells"])
    assert json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n" == text


def test_counts_run_from_one_and_equal_cells_have_different_ids(finished):
    cells = stored(finished).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5, 6, 7]
    assert [o.execution_count for o in code[5].outputs + code[6].outputs] == [6, 7]
    assert code[5].source == code[6].source
    assert len({cell.id for cell in cells}) == len(cells)


def test_a_notebook_knows_the_files_it_used_and_no_others(finished):
    assert set(stored(finished).metadata.lumen.depends) == {
        "lumen/__init__.py",
        "lumen/dense.py",
        "lumen/book/__init__.py",
        "lumen/book/lumen.mplstyle",
    }


def test_the_learner_s_notebook_holds_the_stub_and_runs(finished):
    cells = stored(finished, "exercises/01_tiny.ipynb").cells
    assert cells[3].source == "def twice(x):\n    return ...\n\n\nprint(twice(2))"
    assert outputs(cells[3]) == ["Ellipsis\n"]
    assert "/exercises/01_tiny.ipynb)" in cells[0].source


# What is executed, and when


def test_building_twice_gives_the_same_bytes(finished, tmp_path):
    again = make_book(tmp_path / "elsewhere" / "again")
    built(again)
    for name in ("chapters/01_tiny.ipynb", "exercises/01_tiny.ipynb"):
        assert (again / name).read_bytes() == (finished / name).read_bytes()


def test_nothing_changed_nothing_done(book, no_kernel):
    before = (book / "chapters/01_tiny.ipynb").stat().st_mtime_ns
    assert built(book).count("up to date") == 2
    assert (book / "chapters/01_tiny.ipynb").stat().st_mtime_ns == before


def test_force_executes_what_did_not_change(book, runs):
    built(book, "chapters/01_tiny.md", force=True)
    assert runs == ["chapters/01_tiny.md"]


def test_new_words_keep_the_outputs_and_give_the_bytes_of_a_full_build(book, chapter, monkeypatch):
    edit(chapter, "Some words.", "Other words.\n\n+++\n\nA new cell.")
    edit(chapter, "a curve that falls", "a curve that rises")
    edit(chapter, "seconds: 1", "seconds: 2")
    with monkeypatch.context() as patch:
        patch.setattr(notebooks, "execute", None)
        assert "nothing executed" in built(book, chapter)
    kept = chapter.with_suffix(".ipynb").read_bytes()
    assert b"Other words." in kept and b"a curve that rises" in kept
    built(book, chapter, force=True)
    assert chapter.with_suffix(".ipynb").read_bytes() == kept


def test_changed_code_is_executed(book, chapter, runs):
    edit(chapter, "double(21)\n```\n\n```{code-cell}\n---", "double(4)\n```\n\n```{code-cell}\n---")
    said = built(book)
    assert runs == ["chapters/01_tiny.md"]
    assert "chapters/01_tiny.md: cell 3 of 7, " in said
    assert "exercises/01_tiny.ipynb: up to date" in said
    assert outputs(stored(book).cells[6]) == ["8"]


def test_an_exception_no_longer_allowed_is_found_by_running(book, chapter):
    edit(chapter, ":tags: [raises-exception]\n\n", "")
    (fault,) = notebooks.build(book, [chapter], stream=io.StringIO())
    assert fault.endswith("line 1, `1 / 0`: ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("name", "content", "again"),
    [
        ("lumen/dense.py", "def double(x):\n    return x + x\n", ["chapters/01_tiny.md"]),
        (
            "lumen/book/lumen.mplstyle",
            "figure.dpi: 90\n",
            ["chapters/01_tiny.md", "exercises/01_tiny.md"],
        ),
        ("lumen/conv.py", "x = 1\n", []),
        ("lumen/dense.py", None, ["chapters/01_tiny.md"]),
    ],
    ids=["used by one", "a style", "used by none", "gone"],
)
def test_a_changed_file_of_the_package_runs_the_notebooks_that_used_it(
    book, monkeypatch, name, content, again
):
    if content is None:
        (book / name).unlink()
    else:
        write(book, {name: content})
    names = []
    monkeypatch.setattr(notebooks, "execute", lambda text, *rest: names.append(text.name))
    notebooks.build(book, stream=io.StringIO())
    assert names == again


def test_a_file_that_changed_during_the_run_counts_as_changed(book, chapter):
    edit(chapter, "len(os.listdir())", 'open(double.__code__.co_filename, "a").write("\\n")')
    edit(chapter, "import os\n", "import os\nfrom lumen.dense import double\n")
    built(book, chapter)
    (said,) = notebooks.check(book)
    assert said.startswith("chapters/01_tiny.ipynb: lumen/dense.py has changed")


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook["cells"][3].update(execution_count=None),
        lambda notebook: notebook["cells"][3].update(outputs=[]),
        lambda notebook: notebook["cells"][6]["outputs"][0]["data"].update({"text/plain": ["43"]}),
        lambda notebook: notebook["metadata"].pop("lumen"),
        lambda notebook: notebook.pop("cells"),
    ],
    ids=["no count", "no outputs", "other output", "no record", "no notebook"],
)
def test_a_damaged_notebook_is_found_and_made_again(book, monkeypatch, change):
    edit_notebook(book / "chapters/01_tiny.ipynb", change)
    (said,) = notebooks.check(book)
    assert said.startswith("chapters/01_tiny.ipynb: ")
    names = []
    monkeypatch.setattr(notebooks, "execute", lambda text, *rest: names.append(text.name))
    built(book)
    assert names == ["chapters/01_tiny.md"]


# When a cell fails


def failing(book, code, **options):
    """Build with a last cell that must fail; returns the message, with the notebook untouched."""
    chapter = book / "chapters/01_tiny.md"
    before = chapter.with_suffix(".ipynb").read_bytes()
    text = chapter.read_text(encoding="utf-8")
    chapter.write_text(f"{text}\n```{{code-cell}}\n\nx = 1\n{code}\n```\n", encoding="utf-8")
    (fault,) = notebooks.build(book, [chapter], stream=io.StringIO(), **options)
    assert chapter.with_suffix(".ipynb").read_bytes() == before
    assert sorted(path.name for path in chapter.parent.iterdir()) == ["01_tiny.ipynb", chapter.name]
    return fault


LAST = CHAPTER.count("\n") + 4


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            'double(\n    "a" * x,\n) + 1',
            f"chapters/01_tiny.md:{LAST + 1}: code cell [8], line 2, `double(`: "
            'TypeError: can only concatenate str (not "int") to str',
        ),
        ("x = = 1", f"chapters/01_tiny.md:{LAST + 1}: code cell [8], line 2, `x = = 1`: SyntaxErr"),
        ("import os; os._exit(1)", f"chapters/01_tiny.md:{LAST}: code cell [8]: the kernel died"),
        (
            "import time; time.sleep(9)",
            f"chapters/01_tiny.md:{LAST}: code cell [8]: this cell ran longer than 1 s",
        ),
        (
            'import warnings; warnings.warn("old news")',
            f"chapters/01_tiny.md:{LAST}: code cell [8]: this cell wrote to stderr:\n",
        ),
        (
            "print(os.getcwd())",
            f"chapters/01_tiny.md:{LAST}: code cell [8]: this cell shows a pa",
        ),
        ("object()", f"chapters/01_tiny.md:{LAST}: code cell [8]: this cell shows `at 0x"),
    ],
    ids=["exception", "syntax", "death", "time-out", "stderr", "path", "address"],
)
def test_a_failing_cell_is_named_and_the_old_notebook_kept(book, code, said):
    assert failing(book, code, timeout=1).startswith(said)


def test_the_set_up_cell_is_named_as_such(book):
    write(book, {"lumen/book/__init__.py": "def setup():\n    raise OSError('no style')\n"})
    (fault,) = notebooks.build(book, ["chapters/01_tiny.md"], stream=io.StringIO())
    assert fault.startswith("chapters/01_tiny.md:8: code cell [1] (the set-up cell), line 9, ")
    assert fault.endswith("OSError: no style")


def test_other_texts_are_built_all_the_same_and_the_command_fails(book, capsys, runs):
    edit(book / "chapters/01_tiny.md", "len(os.listdir())", "len(nothing)")
    edit(book / "exercises/01_tiny.md", "twice(2)", "twice(3)")
    assert notebooks.main(["--root", str(book), "build"]) == 1
    said = capsys.readouterr()
    assert runs == ["chapters/01_tiny.md", "exercises/01_tiny.md"]
    assert "chapters/01_tiny.ipynb: is as it was" in said.out
    assert "exercises/01_tiny.ipynb: 2 cells executed" in said.out
    assert "chapters/01_tiny.md:27: code cell [2], line 5, `len(nothing)`: NameError" in said.err
    assert notebooks.main(["--root", str(book), "build", "exercises/01_tiny.md"]) == 0


def test_a_kernel_that_does_not_start_is_said(book, chapter, monkeypatch):
    monkeypatch.setattr(notebooks, "get_kernel_dict", lambda: {"argv": [sys.executable, "-c", "0"]})
    edit(chapter, "len(os.listdir())", "1")
    (fault,) = notebooks.build(book, [chapter], stream=io.StringIO())
    assert fault.startswith("chapters/01_tiny.md: the kernel failed: ")


def test_a_half_written_file_never_takes_the_notebook_s_place(book, chapter, monkeypatch):
    before = chapter.with_suffix(".ipynb").read_bytes()
    edit(chapter, "Some words.", "Other words.")

    def full_disk(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        built(book, chapter)
    assert chapter.with_suffix(".ipynb").read_bytes() == before
    assert len(list(chapter.parent.iterdir())) == 2


# Bad texts


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (CHAPTER[: CHAPTER.index("# Tiny")], "", ":1: no header"),
        ("lumen:\n  seconds: 1\n  colab: [scikit-learn]\n", "", ":1: no header"),
        ("seconds: 1", "seconds: 1.5", ":1: `seconds` in the header must be a whole number"),
        ("seconds: 1", "seconds: yes", "whole number, got True"),
        ("seconds: 1", "seconds: 0", "whole number, got 0"),
        ("seconds: 1", "second: 1", "not `second`"),
        ("colab: [scikit-learn]", "colab: scikit-learn", "must be a list of packages"),
        ("seconds: 1", "seconds: [1", ":1: this could not be read"),
        ("# Tiny", "Tiny", ":8: there is no title"),
        ("nothing.\n\n+++\n", "nothing.\n", ":14: put `+++` above this heading"),
        (":tags: [hide-input]", ":tags: hide-input", ":21: `tags` must be a list"),
        (":tags: [hide-input]", ":tag: [hide-input]", "not `tag`"),
        (":tags: [hide-input]", ":tags: [hide-input", "could not be read"),
        ("len(os.listdir())", "x = " + "1" * 73, ":27: this line of code has 77 characters"),
        ("double(21)\n```\n\n```{code-cell}\n---", "```\n\n```{code-cell}\n---", None),
        ("1 / 0", "", "this code cell is empty"),
        ("Words between.", "- one\n\n  ```{code-cell}\n  1\n  ```", ":32: a code cell in a list"),
        ("Words between.", "> ```{code-cell}\n> 1\n> ```", ":30: a code cell in a list"),
        ("Words between.", "```{raw-cell}\nx\n```", "a raw cell"),
    ],
)
def test_a_bad_text_is_refused_with_its_place(tmp_path, no_kernel, old, new, said):
    assert old in CHAPTER
    root = make_book(tmp_path, CHAPTER.replace(old, new, 1))
    if said is None:
        assert notebooks.read(root / "chapters/01_tiny.md", root).name == "chapters/01_tiny.md"
        return
    with pytest.raises(Fault) as caught:
        notebooks.read(root / "chapters/01_tiny.md", root)
    assert str(caught.value).startswith("chapters/01_tiny.md:")
    assert said in str(caught.value)
    assert str(caught.value) in notebooks.check(root)


def test_a_line_of_76_characters_fits(tmp_path):
    root = make_book(tmp_path, CHAPTER.replace("len(os.listdir())", "x = " + "1" * 72))
    assert notebooks.read(root / "chapters/01_tiny.md", root).seconds == 1


def test_an_unknown_file_is_refused_with_the_names_there_are(book, capsys):
    assert notebooks.main(["--root", str(book), "build", "chapters/99_none.md"]) == 1
    said = capsys.readouterr().err
    assert said == (
        "chapters/99_none.md: no such text. There are: chapters/01_tiny.md, exercises/01_tiny.md\n"
    )


@pytest.mark.parametrize(
    "config",
    [
        "",
        "repository: {branch: main}",
        "repository: {url: https://x.org/a/b, branch: main}",
        "a: [",
    ],
)
def test_the_repository_must_be_one_that_colab_opens(book, config):
    write(book, {"_config.yml": config})
    said = notebooks.check(book)
    assert len(said) == 2 and said[0].startswith("_config.yml: wanted `repository: {url: https://")


# Text and notebook agree


def test_check_is_silent_where_they_agree(finished, capsys):
    assert notebooks.check(finished) == []
    assert notebooks.main(["--root", str(finished), "check"]) == 0
    assert capsys.readouterr().out == "Texts and notebooks agree.\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Some words.", "Some word.", "md:18: {}, cell 3 of 11, line 3, has `Some words.`, the "),
        ('print("one")', 'print("1")', 'md:25: {}, cell 4 of 11, line 3, has `print("one")`, the'),
        ("len(os.listdir())", "len([])", "md:27: {}, cell 4 of 11, line 5, has `len(os.listdir("),
        ("[hide-input]", "[hide-cell]", 'md:23: {}, cell 4 of 11, has the options {{"tags": ["hi'),
        ('["aside"]', '["side"]', "cell 6 of 11, has the options"),
        ("that falls", "that rises", "cell 8 of 11, has the options"),
        ("seconds: 1", "seconds: 3", "cell 1 of 11, line 7, has `**Runs** in about 1 s"),
        ("[scikit-learn]", "[]", "cell 2 of 11, line 6, has `    %pip"),
        ("Words between.\n", "```{code-cell}\n1\n```\n", "is markdown, the text has code here"),
        ("\n+++ {", "\n+++\n\nNew.\n\n+++ {", "cell 6 of 11, line 1, has `An aside.`"),
    ],
)
def test_an_edit_without_a_build_is_found_and_placed(book, chapter, no_kernel, old, new, said):
    text = chapter.read_text(encoding="utf-8")
    chapter.write_text(text.replace(old, new, 1), encoding="utf-8")
    (found,) = notebooks.check(book)
    assert found.startswith("chapters/01_tiny.md:")
    assert said.format("chapters/01_tiny.ipynb") in found
    assert found.endswith("Run: python tools/notebooks.py build chapters/01_tiny.md")


def test_cells_too_many_and_too_few_are_found(book, chapter):
    text = chapter.read_text(encoding="utf-8")
    chapter.write_text(text + "\nLast words.\n", encoding="utf-8")
    last = text.count("\n") + 2
    assert f"01_tiny.md:{last}: chapters/01_tiny.ipynb ends before" in notebooks.check(book)[0]
    chapter.write_text(text[: text.rindex("```{code-cell}")], encoding="utf-8")
    assert "chapters/01_tiny.md has no cell 11 of 11" in notebooks.check(book)[0]


def test_an_edit_of_the_notebook_is_found(book):
    path = book / "chapters/01_tiny.ipynb"
    edit(path, "Some words.", "Some wrong words.")
    assert "has `Some wrong words.`, the text has `Some words.`" in notebooks.check(book)[0]


def test_another_layout_of_the_same_notebook_is_found(book):
    path = book / "chapters/01_tiny.ipynb"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    assert "ids or layout" in notebooks.check(book)[0]


def test_a_text_without_notebook_and_a_notebook_without_text_are_found(book):
    (book / "chapters/01_tiny.ipynb").unlink()
    (book / "exercises/01_tiny.md").unlink()
    first, second = notebooks.check(book)
    assert first.startswith("chapters/01_tiny.md:1: chapters/01_tiny.ipynb is missing. Run: python")
    assert second.startswith("exercises/01_tiny.ipynb: there is no 01_tiny.md.")


def test_a_changed_package_is_found(book):
    write(book, {"lumen/dense.py": "def double(x):\n    return x + x\n"})
    (said,) = notebooks.check(book)
    assert said.startswith("chapters/01_tiny.ipynb: lumen/dense.py has changed since it was run")


def test_check_as_a_command_prints_each_fault_and_fails(book, chapter, capsys):
    edit(chapter, "Some words.", "Some word.")
    assert notebooks.main(["--root", str(book), "check", "chapters/01_tiny.md"]) == 1
    assert "chapters/01_tiny.md:18: " in capsys.readouterr().err


def test_progress_rewrites_its_line_on_a_terminal_only():
    terminal, log = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    for stream in (terminal, log):
        progress = notebooks.Progress(stream)
        progress.tell("cell 1")
        progress.say("done")
    assert terminal.getvalue() == "\r\x1b[2Kcell 1\r\x1b[2Kdone\n"
    assert log.getvalue() == "cell 1\ndone\n"


# Exercises


def test_learner_gets_stubs_and_the_solved_text_has_no_markers():
    stubbed = EXERCISE.replace(
        "    # solution: return ...\n    doubled = x + x\n    return doubled\n    # end solution\n",
        "    return ...\n",
    )
    assert exercises.learner(EXERCISE) == stubbed
    solved = EXERCISE.replace("    # solution: return ...\n", "").replace(
        "    # end solution\n", ""
    )
    assert exercises.solved(EXERCISE) == solved
    assert exercises.learner(solved) == solved


def test_several_solutions_keep_their_indents():
    text = EXERCISE.replace(
        "    # end solution\n",
        "    # end solution\n\n\nclass Layer:\n    def forward(self, x):\n        if x:\n"
        "            # solution: pass\n            return x * 2\n            # end solution\n"
        "        # solution: raise NotImplementedError\n        return -x\n\n"
        "        # end solution\n",
    )
    learner = exercises.learner(text)
    assert "        if x:\n            pass\n        raise NotImplementedError\n" in learner
    assert "return x * 2" not in learner and "return -x" not in learner


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("    # end solution\n", "", 17, "has no `# end solution`"),
        ("    # solution: return ...\n", "", 19, "no `# solution: STUB` above"),
        ("    doubled = x + x\n", "    # solution: pass\n", 18, "of line 17 is not ended"),
        ("# solution: return ...", "# solution:", 17, "write this as"),
        ("# solution: return ...", "# Solution: return ...", 17, "write this as"),
        ("# end solution", "# end of solution", 20, "write this as"),
        ("    doubled = x + x\n    return doubled\n", "\n", 17, "empty"),
        ("# solution: return ...", "# solution: return (", 17, "not Python"),
        ("    doubled = x + x\n", "    %time x\n", 18, "must be plain Python"),
        ("print(twice(2))\n", "# solution: y = 0\ny = 1 + 1\n# end solution\n", 23, "a function"),
        ("## One", "## One\n\n    # solution: return ...", 15, "outside a code cell"),
        ("print(twice(2))\n```\n", "print(twice(2))\n", 15, "never closed"),
    ],
)
def test_markers_that_cannot_be_followed_are_refused(tmp_path, old, new, line, said):
    assert old in EXERCISE
    text = EXERCISE.replace(old, new, 1)
    for view in (exercises.learner, exercises.solved):
        with pytest.raises(exercises.Mistake, match=said) as caught:
            view(text)
        assert caught.value.line == line
    root = make_book(tmp_path)
    write(root, {"exercises/01_tiny.md": text})
    with pytest.raises(Fault, match=f"exercises/01_tiny.md:{line}: "):
        notebooks.read(root / "exercises/01_tiny.md", root)


def test_lines_below_a_solution_keep_their_number_in_the_source(tmp_path):
    root = make_book(tmp_path)
    edit(root / "exercises/01_tiny.md", "twice(2)", "twice(" + "2" * 80 + ")")
    with pytest.raises(Fault, match="exercises/01_tiny.md:23: this line of code has 94 characters"):
        notebooks.read(root / "exercises/01_tiny.md", root)


def test_options_of_a_code_cell_are_no_code():
    for options in (":tags: [a]\n:mystnb: {image: {alt: b}}\n\n", "---\ntags: [a]\n---\n"):
        text = EXERCISE.replace("```{code-cell}\n", "```{code-cell}\n" + options)
        assert "return doubled" not in exercises.learner(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook["cells"][3].update(source="def twice(x):\n    doubled = x+x"),
        lambda notebook: notebook["cells"][2].update(source="Try `doubled = x + x` first."),
        lambda notebook: notebook["cells"][3]["outputs"][0].update(text=["doubled = x + x\n"]),
        lambda notebook: notebook["cells"][3].update(
            outputs=[{"data": {"text/html": ["<b>doubled = x ", "+ x</b>"]}}]
        ),
    ],
    ids=["code", "words", "stream", "html"],
)
def test_a_solution_line_in_the_learner_s_notebook_is_a_leak(finished, change):
    notebook = json.loads((finished / "exercises/01_tiny.ipynb").read_text(encoding="utf-8"))
    assert exercises.leaks(EXERCISE, notebook) == []
    change(notebook)
    assert exercises.leaks(EXERCISE, notebook) == ["doubled = x + x"]


def test_lines_that_tell_nothing_are_no_leak(finished):
    notebook = stored(finished, "exercises/01_tiny.ipynb")
    notebook.cells[2].source += "\n\n    return doubled"
    assert exercises.leaks(EXERCISE, notebook) == []


def test_exercises_as_a_command_builds_through_notebooks(book, monkeypatch, capsys):
    monkeypatch.setattr(exercises, "ROOT", book)
    monkeypatch.setattr(notebooks, "ROOT", book)
    asked = []
    monkeypatch.setattr(notebooks, "main", lambda arguments: asked.append(arguments) or 0)
    assert exercises.main([]) == 0
    assert exercises.main(["exercises/01_tiny.md"]) == 0
    assert asked == [
        ["build", str(book / "exercises/01_tiny.md")],
        ["build", "exercises/01_tiny.md"],
    ]
    (book / "exercises/01_tiny.md").unlink()
    assert exercises.main([]) == 0 and len(asked) == 2
    assert "no exercises" in capsys.readouterr().out


# nbval, and the summary of conftest.py


def nbval(book, *options):
    command = [sys.executable, "-m", "pytest", "-p", "nbval.plugin", "-p", "xdist.plugin"]
    command += ["--nbval", "--nbval-current-env", "--color=no", "-p", "no:cacheprovider"]
    outside = {k: v for k, v in os.environ.items() if k[:7] != "PYTEST_" and k != "MPLBACKEND"}
    only_named = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(book)}
    return subprocess.run(
        [*command, "chapters", "exercises", *options],
        cwd=book,
        env=outside | notebooks.ENVIRONMENT | only_named,
        capture_output=True,
        text=True,
    )


def test_nbval_finds_a_changed_output_and_the_times_are_summed_across_workers(book):
    shutil.copy(HERE / "conftest.py", book)
    edit(book / "chapters/01_tiny.md", "len(os.listdir())", "len([])")
    built(book, "chapters/01_tiny.md")

    def lie(notebook):
        notebook["cells"][6]["outputs"][0]["data"]["text/plain"] = ["43"]

    edit_notebook(book / "chapters/01_tiny.ipynb", lie)
    run = nbval(book, "-n", "2", "--dist", "loadfile")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "FAILED chapters/01_tiny.ipynb::Cell 2" in run.stdout
    assert "1 failed, 8 passed" in run.stdout
    assert "'43' == '42'" in run.stdout
    for folder in ("chapters", "exercises"):
        assert f"\n{folder}/01_tiny.ipynb: 0." in run.stdout
    assert run.stdout.count(" s, its header says 1 s\n") == 2


def test_a_notebook_that_takes_too_long_fails_the_run(book):
    shutil.copy(HERE / "conftest.py", book)
    edit(book / "conftest.py", "LONGEST = 25", "LONGEST = 0")
    edit(book / "conftest.py", "2 * self._said(name)", "1e-9 * self._said(name)")
    shutil.rmtree(book / "chapters")
    (book / "chapters").mkdir()
    run = nbval(book)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "2 passed" in run.stdout
    assert "TOO SLOW: the limit is 1e-09 s" in run.stdout
