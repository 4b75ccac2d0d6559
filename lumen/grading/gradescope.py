"""An autograder for Gradescope: an archive with the package, the seeds and two scripts.

Gradescope starts one container for each submission, runs ``setup.sh`` when the image is made and
``run_autograder`` each time, and reads ``results/results.json``. In there the package is no
installed one: it lies in a folder closed to the user of the box, with its references and the seeds.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lumen.grading.sandbox import package_folder

SETUP = """\
#!/usr/bin/env bash
# Makes the image: a sandbox, and a Python with what the package needs.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
source="$root/source"

if ! command -v bwrap >/dev/null || ! command -v setpriv >/dev/null; then
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \\
    bubblewrap util-linux python3 python3-venv
fi
python="${LUMEN_PYTHON:-}"
if [ -z "$python" ]; then
  python3 -m venv "$root/python"
  python="$root/python/bin/python"
  "$python" -m pip install --quiet --requirement "$source/requirements.txt"
fi
printf '%s\\n' "$python" >"$source/python"
# what decides the marks is for root alone
chmod -R go-rwx "$source"
"""

RUN = """\
#!/usr/bin/env bash
# Grades the one submission that was put beside it.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
source="$root/source"
mkdir -p "$root/results"
chmod -R go-rwx "$source" "$root/results"
export PYTHONPATH="$source" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
exec "$(cat "$source/python")" -m lumen.exercises gradescope SET \\
  "$root/submission" --results "$root/results/results.json" --seed-file "$source/seeds.json" \\
  PRIVATE--require-sandbox
"""


def write_zip(
    path: Path,
    set_name: str,
    seeds: Sequence[int],
    requirements: Sequence[str],
    private: Path | None = None,
) -> None:
    """Write the archive: readable by its maker only, for the seeds are in it."""
    run = RUN.replace("SET", set_name)
    run = run.replace("PRIVATE", '--private "$source/private.py" ' if private else "")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        _script(made, "setup.sh", SETUP)
        _script(made, "run_autograder", run)
        made.writestr("requirements.txt", "".join(f"{line}\n" for line in requirements))
        made.writestr("seeds.json", json.dumps(list(seeds)))
        if private:
            made.writestr("private.py", private.read_bytes())
        package = package_folder()
        for found in sorted(package.rglob("*")):
            if found.is_file() and "__pycache__" not in found.parts:
                made.write(found, f"lumen/{found.relative_to(package).as_posix()}")


def _script(archive: zipfile.ZipFile, name: str, text: str) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o755 << 16
    archive.writestr(info, text)
