"""The autograder for Gradescope, unpacked and run in a scratch root as Gradescope does it."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

from lumen.exercises import SETS
from lumen.grading.command import main
from tests import boxes
from tests.attacks import ATTACKS, FULL, POINTS, RIGHT, SET, TARGETS, notebook, without


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root as Gradescope's image has it after ``setup.sh``."""
    if all(boxes.refusal(level) for level in boxes.SAFE):
        boxes.need(1)
    root = tmp_path_factory.mktemp("autograder")
    archive = root / "autograder.zip"
    assert main(SETS, ["gradescope-zip", SET, "--out", str(archive)]) == 0
    assert archive.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(archive) as made:
        for info in made.infolist():
            made.extract(info, root / "source")
            mode = info.external_attr >> 16
            if mode:
                os.chmod(root / "source" / info.filename, mode)
    script(root, root / "source" / "setup.sh", LUMEN_PYTHON=sys.executable)
    return root


def script(root, path, **more):
    environment = {"PATH": os.environ["PATH"], "AUTOGRADER_ROOT": str(root), **more}
    subprocess.run(["bash", str(path)], env=environment, cwd=root, check=True, timeout=300)


def graded(root, content, name="work.ipynb"):
    submission = root / "submission"
    submission.mkdir(exist_ok=True)
    for old in submission.iterdir():
        old.unlink()
    if content is not None:
        (submission / name).write_bytes(content)
    script(root, root / "source" / "run_autograder")
    return json.loads((root / "results" / "results.json").read_text())


def test_a_right_notebook_has_all_points(root):
    results = graded(root, notebook(RIGHT), "Ann's work (2).ipynb")
    assert results["score"] == FULL == sum(test["max_score"] for test in results["tests"])
    assert {test["status"] for test in results["tests"]} == {"passed"}
    assert results["stdout_visibility"] == "hidden" and "level 3" not in results["output"]


def test_half_a_notebook_has_its_points_and_hints(root):
    results = graded(root, notebook(without(TARGETS[0])))
    assert results["score"] == FULL - POINTS[TARGETS[0]]
    assert "There is no function `layer_norm`. Give it the name" in results["tests"][0]["output"]


@pytest.mark.parametrize("content", [b"no notebook", None], ids=["broken", "none"])
def test_what_cannot_be_read_has_no_points_and_a_reason(root, content):
    results = graded(root, content)
    assert results["score"] == 0 and "notebook" in results["output"]


@pytest.mark.parametrize("name", ["written_results", "the_references_by_search"])
def test_an_attack_from_inside_wins_nothing(root, name):
    assert graded(root, ATTACKS[name].content)["score"] == 0


def test_the_same_seeds_are_asked_of_everybody_and_are_closed(root):
    seeds = root / "source" / "seeds.json"
    assert len(json.loads(seeds.read_text())) == 3
    for path in (root / "source", seeds, root / "source" / "lumen" / "exercises" / "norms.py"):
        assert path.stat().st_mode & 0o077 == 0


def test_requirements_are_pinned_and_the_package_is_whole(root):
    lines = (root / "source" / "requirements.txt").read_text().splitlines()
    assert [line.partition("==")[0] for line in lines] == ["torch", "numpy", "matplotlib"]
    assert not list((root / "source").rglob("__pycache__"))
    assert (root / "source" / "lumen" / "book" / "lumen.mplstyle").exists()


def test_an_archive_that_is_there_and_a_set_that_is_not(tmp_path, capsys):
    out = tmp_path / "x.zip"
    out.write_text("mine")
    assert main(SETS, ["gradescope-zip", SET, "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err and out.read_text() == "mine"
    assert main(SETS, ["gradescope-zip", "norm", "--out", str(tmp_path / "y.zip")]) == 2
    assert "no set 'norm'" in capsys.readouterr().err
    assert main(SETS, ["gradescope-zip", SET, "--out", str(out), "--force"]) == 0


def test_private_questions_travel_in_the_archive(tmp_path):
    private = tmp_path / "mine.py"
    private.write_text("SETS = {'own': ()}")
    out = tmp_path / "x.zip"
    words = ["gradescope-zip", "own", "--out", str(out), "--private", str(private)]
    assert main(SETS, words) == 0
    with zipfile.ZipFile(out) as made:
        assert made.read("private.py") == private.read_bytes()
        assert '--private "$source/private.py"' in made.read("run_autograder").decode()
