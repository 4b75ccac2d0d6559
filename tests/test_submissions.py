"""What was handed in: every form in which course systems hand it over, and every broken one."""

import io
import json
import os
import zipfile

import pytest

from lumen.exercises import SETS
from lumen.grading import notebook, submissions
from lumen.grading.notebook import Unreadable, code_cells, set_of
from lumen.grading.submissions import find, find_one


def made(*cells):
    listed = [{"cell_type": "code", "source": source} for source in cells or ("a = 1",)]
    return json.dumps({"cells": listed}).encode()


def zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


@pytest.fixture
def place(tmp_path):
    def put(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path

    return put


def names(found):
    return [submission.name for submission in found]


def test_a_folder_of_notebooks(place):
    found = find(place({"b.ipynb": made("b"), "a.ipynb": made("a"), "read me.txt": b"no"}))
    assert [(s.name, s.cells, s.problem) for s in found] == [("a", ("a",), ""), ("b", ("b",), "")]


def test_a_folder_for_each_learner(place):
    files = {f"{name}_123_assignsubmission_file/work.ipynb": made() for name in ("Ann", "Bob")}
    found = find(place(files))
    assert names(found) == ["Ann_123_assignsubmission_file", "Bob_123_assignsubmission_file"]
    assert found[0].file.endswith("Ann_123_assignsubmission_file/work.ipynb")


def test_one_zip_of_a_course_system(place):
    folders = {f"{name}_1_file/w.ipynb": made() for name in ("Ann", "Bob")}
    assert names(find(place({"export.zip": zipped(folders)}))) == ["Ann_1_file", "Bob_1_file"]


def test_one_zip_with_flat_notebooks(place):
    flat = {"annlee_1_2_norms.ipynb": made(), "bobray_3_4_norms-1.ipynb": made()}
    assert names(find(place({"x.zip": zipped(flat)}))) == [name[:-6] for name in flat]


def test_the_zip_itself(place):
    where = place({"x.zip": zipped({"a.ipynb": made(), "b.ipynb": made()})})
    assert names(find(where / "x.zip")) == ["a", "b"]


def test_a_zip_of_zips_and_a_wrapping_folder(place):
    inner = {f"all/{name}.zip": zipped({"w/x.ipynb": made(name)}) for name in ("ann", "bob")}
    found = find(place({"export.zip": zipped(inner)}))
    assert [(s.name, s.cells) for s in found] == [("ann", ("ann",)), ("bob", ("bob",))]


def test_a_loose_file_that_is_no_notebook_is_not_passed_over(place):
    files = {"ann.ipynb": made(), "dee.ipynb": made(), "list.csv": b""}
    files |= {"bob_1_2_work.py": b"", "cyd scan.PDF": b""}
    found = find(place({"x.zip": zipped(files)}))
    assert names(found) == ["ann", "bob_1_2_work.py", "cyd scan.PDF", "dee"]
    assert [s.problem for s in found] == ["", *["it is no notebook (.ipynb)"] * 2, ""]


def test_a_sheet_beside_the_export_is_no_submission(place):
    folders = {f"{name}_1_file/w.ipynb": made() for name in ("Ann", "Bob")}
    where = place({"export.zip": zipped(folders), "sheet.pdf": b""})
    assert names(find(where)) == ["Ann_1_file", "Bob_1_file"]


def test_a_single_notebook_and_a_single_learners_folder(place):
    where = place({"Ann Öz/w.ipynb": made("x")})
    assert names(find(where)) == ["Ann Öz"]
    assert names(find(where / "Ann Öz" / "w.ipynb")) == ["w"]
    assert find_one(where / "Ann Öz").cells == ("x",)


def test_names_with_spaces_and_other_scripts_and_the_same_name_twice(place):
    files = {"Ann Öz.ipynb": made("1"), "Ann Öz/w.ipynb": made("2"), "李 四.IPYNB": made("3")}
    found = find(place(files))
    assert names(found) == ["Ann Öz", "Ann Öz (2)", "李 四"]
    assert sorted(s.cells for s in found) == [("1",), ("2",), ("3",)]


def test_a_name_that_looks_like_a_numbered_one_stays_apart(place):
    files = {"a.ipynb": made(), "a/w.ipynb": made(), "a (2).ipynb": made()}
    assert len(set(names(find(place(files))))) == 3


def test_copies_of_the_system_and_of_the_editor_do_not_count(place):
    files = {
        "ann/w.ipynb": made(),
        "ann/.ipynb_checkpoints/w-checkpoint.ipynb": made(),
        "ann/__MACOSX/._w.ipynb": b"\0",
        "bob.zip": zipped({"w.ipynb": made(), "__MACOSX/._w.ipynb": b"\0"}),
        ".hidden.ipynb": made(),
    }
    assert [(s.name, s.problem) for s in find(place(files))] == [("ann", ""), ("bob", "")]


@pytest.mark.parametrize(
    "files, problem",
    [
        ({"a/x.ipynb": made(), "a/y.ipynb": made()}, "2 notebooks in it, which one"),
        ({"a/notes.txt": b""}, "no notebook in it"),
        ({"a.zip": zipped({"notes.txt": b""})}, "no notebook in it"),
        ({"a.zip": b"PK no archive"}, "not a zip archive"),
        ({"a.zip": zipped({"w.ipynb": made()})[:-30]}, "not a zip archive"),
        ({"a.ipynb": b"hello"}, "not JSON"),
        ({"a.ipynb": b"  \n"}, "empty"),
        ({"a.ipynb": b"\xff\xfe\x00"}, "not UTF-8"),
        ({"a.ipynb": b"[1]"}, "without a list of cells"),
        ({"a.ipynb": b'{"cells": 3}'}, "without a list of cells"),
        ({"a.ipynb": b"[" * 100_000}, "not JSON"),
        ({"a.ipynb": b'{"cells": [{"cell_type": "markdown"}]}'}, "no code cell"),
    ],
)
def test_what_cannot_be_read_is_a_submission_with_its_reason(place, files, problem):
    found = find(place({**files, "other.ipynb": made()}))
    assert [s.problem == "" for s in found] == [False, True]
    assert problem in found[0].problem and found[0].cells == ()


def test_a_member_that_swells_is_not_unpacked(place, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_NOTEBOOK", 1 << 16)
    bomb = zipped({"w.ipynb": bytes(1 << 22)})
    assert len(bomb) < 1 << 16
    found = find(place({"a.zip": bomb, "b.ipynb": made()}))
    assert "larger than" in found[0].problem


def test_a_file_that_is_too_large_is_not_read(place, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_NOTEBOOK", 100)
    assert "larger than" in find(place({"a.ipynb": made("x" * 100)}))[0].problem


def test_the_judge_of_a_notebook_has_the_same_limit(monkeypatch):
    monkeypatch.setattr(notebook, "MOST_NOTEBOOK", 10)
    with pytest.raises(Unreadable, match="larger than"):
        code_cells(made())


def test_archives_in_archives_end_somewhere(place):
    content = zipped({"w.ipynb": made()})
    for _ in range(submissions.DEEPEST_ARCHIVE):
        content = zipped({"x.zip": content})
    found = find(place({"a.zip": content, "b.ipynb": made()}))
    assert "deep in one another" in found[0].problem


def test_archives_without_end_are_not_opened(place):
    inner = {f"{n}.zip": zipped({"w.txt": b""}) for n in range(submissions.MOST_ARCHIVES)}
    found = find(place({"ann.zip": zipped(inner), "bob.ipynb": made()}))
    assert "more than 20 archives lie in it" in found[0].problem and not found[1].problem


def test_an_archive_of_too_many_members_is_refused(place, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_MEMBERS", 3)
    many = zipped({f"{n}.txt": b"" for n in range(4)})
    assert "more than 3 members" in find(place({"a.zip": many, "b.ipynb": made()}))[0].problem


def test_a_path_out_of_an_archive_leads_nowhere(place, tmp_path):
    where = place({"in/a.zip": zipped({"../../w.ipynb": made("x")}), "in/b.ipynb": made()})
    assert find(where / "in")[0].cells == ("x",)
    assert not (tmp_path / "w.ipynb").exists()


def test_a_file_and_a_folder_of_one_name_in_an_archive(place):
    clash = zipped({"a": b"file", "a/w.ipynb": made("x"), "b.ipynb": made("y")})
    found = find(place({"z.zip": clash, "other.ipynb": made()}))
    assert [(s.name, s.cells) for s in found] == [("other", ("a = 1",)), ("z", ("y",))]


def test_a_locked_member_is_told(place):
    content = bytearray(zipped({"w.ipynb": made()}))
    content[6] |= 1  # the flag of encryption, in the member's head and in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    found = find(place({"a.zip": bytes(content), "b.ipynb": made()}))
    assert "damaged or locked" in found[0].problem


def test_a_link_is_not_followed(place, tmp_path):
    where = place({"in/b.ipynb": made(), "secret.ipynb": made("secret")})
    os.symlink(tmp_path / "secret.ipynb", where / "in" / "a.ipynb")
    found = find(where / "in")
    assert (found[0].name, found[0].cells) == ("a", ())
    assert "link" in found[0].problem


def test_a_pipe_does_not_hold_the_judge(place):
    where = place({"b.ipynb": made()})
    os.mkfifo(where / "a.ipynb")
    assert "no plain file" in find(where)[0].problem


def test_nothing_there_and_nothing_in_there_are_errors(place, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no"):
        find(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match="there is no"):
        find_one(tmp_path / "away")
    with pytest.raises(Unreadable, match="no notebook"):
        find(place({"notes.txt": b""}))


# ---- cells, and the set they answer


def test_cells_come_in_order_from_text_or_lists_of_lines():
    cells = [
        {"cell_type": "code", "source": ["a = 1\n", "b = 2"]},
        {"cell_type": "markdown", "source": "no"},
        {"cell_type": "code", "source": "c = 3", "outputs": "lies"},
        {"cell_type": "code", "source": 7},
        "noise",
    ]
    assert code_cells(json.dumps({"cells": cells}).encode()) == ["a = 1\nb = 2", "c = 3", ""]


def test_a_notebook_of_an_old_format_is_read():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": "a = 1"}]}]}
    assert code_cells(json.dumps(old).encode()) == ["a = 1"]


@pytest.mark.parametrize(
    "cells, name",
    [
        (['score("norms", globals())'], "norms"),
        (["points = score('attention',\n  globals())"], "attention"),
        (['check("pooling.count")(f)'], "pooling"),
        (["def layer_norm(x): ...", "def rms_norm(x): ..."], "norms"),
        (["def layer_norm(x: ...", "def rms_norm(x): ..."], "norms"),
        (['score("norms", g)', 'score("dense", g)', "def layer_norm(x): ..."], "norms"),
        (['score("unheard", g)'], None),
        (["-" * 200_000 + "1", "def layer_norm(x): ...", "def rms_norm(x): ..."], "norms"),
        (["a = 1"], None),
    ],
)
def test_the_set_is_told_from_the_notebook(cells, name):
    assert set_of(cells, SETS) == name
