"""Hostile and broken submissions, and what each is worth.

Each attacks the set ``norms`` (10 points) in its own way, on answers that are wrong, which must
stay at 0, or on answers that are right, which must keep what they earned.

    python -m tests.attacks FOLDER    write them all, to be graded by hand
"""

import ast
import io
import json
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import jupytext

from lumen.exercises import SETS
from lumen.grading.question import run
from tools import exercises as texts

ROOT = Path(__file__).resolve().parents[1]
SET = "norms"
QUESTIONS = SETS[SET]
TARGETS = [question.target for question in QUESTIONS]
POINTS = {question.target: question.points for question in QUESTIONS}
FULL = sum(POINTS.values())


def _cells_with_solutions():
    """The code cells of the solved set that import or define something."""
    text = next(
        path.read_text()
        for path in sorted((ROOT / "exercises").glob("*.md"))
        if f'score("{SET}"' in path.read_text()
    )
    notebook = jupytext.reads(texts.solved(text), fmt="md:myst")
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if cell.startswith("import torch") or _defines(cell)]


def _defines(cell):
    try:
        tree = ast.parse(cell)
    except SyntaxError:
        return False
    return any(isinstance(node, ast.FunctionDef) for node in tree.body)


RIGHT = _cells_with_solutions()
WRONG = [
    "import torch",
    *(f"def {target}(*given, **named):\n    return given[0]" for target in TARGETS),
]


def answering(expression, before=""):
    """Every function of the set as one expression of what it is given."""
    functions = [f"def {t}(*given, **named):\n    return {expression}" for t in TARGETS]
    return ["import torch", before, *functions]


def without(*targets):
    """The right answers, those of some functions left out."""
    gone = tuple(f"def {target}(" for target in targets)
    return [cell for cell in RIGHT if not any(name in cell for name in gone)]


def notebook(cells, **top):
    listed = [
        {"cell_type": "code", "id": f"c{at}", "metadata": {}, "outputs": [], "source": source}
        for at, source in enumerate(cells)
    ]
    whole = {"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | top
    return json.dumps(whole).encode()


@dataclass(frozen=True)
class Attack:
    """What is handed in, and its points; ``at_2`` where level 2 promises less than level 1."""

    content: bytes
    points: int
    at_2: int | None
    file: str = "{}.ipynb"


ATTACKS = {}
QUICK = set()  # those that every ``make test`` runs

NO_PROMISE = -1


def add(name, content, points, at_2=None, file="{}.ipynb", quick=False):
    assert name not in ATTACKS
    if not isinstance(content, bytes):
        content = notebook(content)
    ATTACKS[name] = Attack(content, points, points if at_2 is None else at_2, file)
    if quick:
        QUICK.add(name)


# ---- wrong answers that claim to be right

add("right", RIGHT, FULL, quick=True)
add("identity", WRONG, 0)
add("untouched", (ROOT / "exercises" / "12_normalisation.ipynb").read_bytes(), 0)
add(
    "lying_equality",
    answering(
        "Yes()",
        "class Yes:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "    def __getattr__(self, name): return lambda *a, **k: True",
    ),
    0,
    quick=True,
)
add(
    "lying_class",
    answering(
        "Lie()",
        "class Lie:\n    __class__ = torch.Tensor\n    dtype, shape = torch.float32, ()\n"
        "    def detach(self): return self",
    ),
    0,
)
add(
    "lying_metaclass",
    answering(
        "Lie()",
        "class Meta(type):\n    __name__ = 'Tensor'\n    def __eq__(self, other): return True\n"
        "    __hash__ = type.__hash__\nclass Lie(metaclass=Meta): pass",
    ),
    0,
)
add(
    "tensor_subclass",
    answering(
        "torch.ones(3).as_subclass(Sub)",
        "class Sub(torch.Tensor):\n"
        "    @classmethod\n    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "        return True",
    ),
    0,
)
add(
    "number_subclass",
    answering(
        "Any(0)",
        "class Any(float):\n    def __eq__(self, o): return True\n"
        "    def __sub__(self, o): return 0.0\n    __rsub__ = __sub__\n"
        "    def __le__(self, o): return True\n    __ge__ = __le__\n    __hash__ = float.__hash__",
    ),
    0,
)
add(
    "patched_torch",
    [
        *WRONG,
        "for name in 'allclose equal isclose eq'.split():\n"
        "    setattr(torch, name, lambda *a, **k: torch.tensor(True))\n"
        "torch.testing.assert_close = lambda *a, **k: None\n"
        "torch.Tensor.detach = lambda self: self\n"
        "torch.Tensor.__eq__ = lambda self, other: torch.tensor(True)",
    ],
    0,
    quick=True,
)
add(
    "patched_builtins",
    [
        *WRONG,
        "import builtins, math\n"
        "builtins.abs = lambda x: 0\nbuiltins.all = lambda x: True\n"
        "builtins.any = lambda x: False\nbuiltins.max = lambda *a, **k: 0\n"
        "math.isfinite = lambda x: True",
    ],
    0,
)
add(
    "patched_engine",
    [
        *WRONG,
        "import lumen.grading.question as q, lumen.grading.check as c\n"
        "q.compare = lambda *a: None\nc.compare = lambda *a: None\n"
        "c._recognise = lambda *a: None\nq._close = lambda *a: True",
    ],
    0,
    quick=True,
)
add(
    "patched_verdict",
    [
        *WRONG,
        "import lumen.grading.check as c\n"
        "class Full:\n    points = max_points = 10\n    ok = True\n"
        "c.check = lambda *a, **k: Full()\nc.Verdict = Full",
    ],
    0,
)
add(
    "patched_standin",
    [
        *WRONG,
        "import lumen.exercises as e\nclass Full:\n    points = max_points = 10\n"
        "e.check = lambda *a: lambda f: Full()\ne.score = lambda *a: Full()\n"
        f"e.score('{SET}', globals())",
    ],
    0,
)
add(
    "shadowed_check",
    ["def check(name):\n    return lambda f: 'all passed'", *WRONG, "print('norms: 10 of 10')"],
    0,
)
add(
    "printed_scores",
    [*WRONG, f"for _ in range(100):\n    print('{SET}: {FULL} of {FULL} points in all')"],
    0,
)
add(
    "written_results",
    [
        *WRONG,
        "import os, json, tempfile\n"
        "full = json.dumps({'score': 10, 'points': 10, 'marks': []})\n"
        "home = os.path.expanduser('~')\n"
        "places = ['.', '/tmp', tempfile.gettempdir(), home, '/autograder/results']\n"
        "for folder in places:\n"
        "    for name in ('results.json', 'grades.csv', 'batch.json', 'gradebook.db'):\n"
        "        try:\n            open(os.path.join(folder, name), 'w').write(full)\n"
        "        except OSError: pass",
    ],
    0,
)
add(
    "the_references",
    [
        *WRONG,
        "try:\n"
        "    from lumen.exercises.norms import QUESTIONS\n"
        "    for q in QUESTIONS: globals()[q.target] = q.reference\n"
        "except Exception: pass",
    ],
    0,
    quick=True,
)
add(
    "the_references_by_search",
    [
        *WRONG,
        "import os, sys, importlib\n"
        "for folder, names, files in os.walk('/'):\n"
        "    names[:] = [n for n in names if n not in ('proc', 'sys', 'dev', 'torch')]\n"
        "    if folder.endswith('lumen/exercises') and 'norms.py' in files:\n"
        "        for n in [n for n in sys.modules if n.startswith('lumen')]: del sys.modules[n]\n"
        "        sys.path.insert(0, os.path.dirname(os.path.dirname(folder)))\n"
        "        from lumen.exercises.norms import QUESTIONS\n"
        "        for q in QUESTIONS: globals()[q.target] = q.reference\n"
        "        break",
    ],
    0,
    at_2=NO_PROMISE,  # what others may read, level 2 cannot hide: INSTRUCTORS.md says so
)
add(
    "the_seeds_by_search",
    [
        *WRONG,
        "import os, json\nfound = []\n"
        "for top in ('/tmp', '/work', '/home', '/root', '/autograder', '/var'):\n"
        "    for folder, names, files in os.walk(top):\n"
        "        names[:] = [n for n in names if n not in ('site-packages', '.git')]\n"
        "        if 'batch.json' in files:\n"
        "            try: found.append(json.load(open(folder + '/batch.json'))['seeds'])\n"
        "            except OSError: pass\n"
        "if found:\n    layer_norm = rms_norm = None\n    raise SystemExit(found)",
    ],
    0,
)
add(
    "the_frames_above",
    answering(
        "peek()",
        "import sys, gc\n"
        "def peek():\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for name in ('expected', 'reference', 'question', 'cases', 'answers'):\n"
        "            if name in frame.f_locals: return frame.f_locals[name]\n"
        "        frame = frame.f_back\n"
        "    for thing in gc.get_objects():\n"
        "        if type(thing).__name__ == 'Question': return thing.reference\n",
    ),
    0,
)
add(
    "the_environment",
    answering("torch.tensor([float(len(os.environ))])", "import os"),
    0,
)
add("not_a_number", answering("torch.full_like(torch.as_tensor(given[0]), float('nan'))"), 0)
add("empty_tensors", answering("torch.empty(0)"), 0)
add("wide_tensors", answering("torch.zeros(1).expand(1 << 40)"), 0)
add("wrong_dtype", answering("torch.as_tensor(given[0]).to(torch.complex64)"), 0)
add("meta_tensors", answering("torch.empty(3, device='meta')"), 0)
add("sparse_tensors", answering("torch.eye(3).to_sparse()"), 0)
add("list_in_itself", answering("loop", "loop = []\nloop.append(loop)"), 0)
add("deep_list", answering("deep", "deep = 0\nfor _ in range(5000): deep = [deep]"), 0)
add("huge_number", answering("10 ** 100_000"), 0)
add("endless_generator", answering("iter(int, 1)"), 0)
add(
    "a_pickle_that_runs",
    answering(
        "Trap()",
        "import os\nclass Trap:\n"
        "    def __reduce__(self): return os.system, ('kill -9 -1',)\n"
        "    __reduce_ex__ = lambda self, version: self.__reduce__()",
    ),
    0,
)


def _learned():
    """Answers looked up by the public cases, as if copied from what the notebook showed."""
    cells = ["import torch, ast"]
    for question in QUESTIONS:
        table = [(repr(_plain(case)), _answer(question, case)) for case in question.cases(0)]
        table = [(key, value) for key, value in table if value is not None]
        cells.append(
            f"TABLE_{question.target} = {table!r}\n"
            f"def {question.target}(*given, **named):\n"
            "    key = repr([x.tolist() if hasattr(x, 'tolist') else x for x in given])\n"
            f"    for inputs, (dtype, value) in TABLE_{question.target}:\n"
            "        if key == inputs:\n"
            "            return torch.tensor(eval(value), dtype=getattr(torch, dtype))\n"
            "    raise ValueError('not seen')"
        )
    return cells


def _plain(case):
    return [v.tolist() if hasattr(v, "tolist") else v for v in case.args.values()]


def _answer(question, case):
    value = run(question.reference, case).value
    if not hasattr(value, "numbers"):
        return None
    import torch

    flat = torch.tensor(value.numbers()).reshape(value.shape)
    return value.dtype, repr(flat.tolist()).replace("nan", "float('nan')")


add("learned_by_heart", _learned(), 0, quick=True)

# ---- false words on the wire

FRAME = (
    "import os, json, struct\n"
    "def frame(message):\n"
    "    body = message if isinstance(message, bytes) else json.dumps(message).encode()\n"
    "    return struct.pack('>Q', len(body)) + body\n"
    "def everywhere(data):\n"
    "    for number in range(3, 64):\n"
    "        try: os.write(number, data)\n"
    "        except OSError: pass\n"
)
FALSE_ANSWER = (
    "{'id': 'ready', 'answer': {'value': 1.0, 'gradients': [], 'changed': [], 'fault': None},"
    " 'points': 10, 'ok': True}"
)


def speaking(expression, answers=None):
    """Answers that write something on every descriptor while they are asked."""
    said = f"{FRAME}def say():\n    everywhere({expression})\n    return torch.zeros(1)"
    return answers or answering("say()", said)


add("false_replies", speaking(f"frame({FALSE_ANSWER})"), 0, quick=True)
add("false_header", speaking("struct.pack('>Q', 1 << 62)"), 0, quick=True)
add("half_a_header", speaking("b'abc'"), 0)
add("frame_of_brackets", speaking("frame(b'[' * (1 << 20))"), 0)
add("frame_of_noise", speaking("os.urandom(1 << 16)"), 0)
for wire_name, reply in {
    "absurd_tensor_header": "{'array': ['float32', [1 << 40, 1 << 40], 'AAAA']}",
    "negative_shape": "{'array': ['float32', [-1, -1], 'AAAA']}",
    "foreign_dtype": "{'array': ['object', [1], 'AAAA']}",
    "array_of_words": "{'array': 'all of it'}",
    "unknown_form": "{'pickle': 'gASVCQAAAAAAAABLAS4='}",
    "endless_text": "'x' * (1 << 22)",
}.items():
    add(
        wire_name,
        [*WRONG, f"import lumen.grading.wire as wire\nwire.encode = lambda plain: {reply}"],
        0,
    )
add(
    "reply_with_points",
    [
        *WRONG,
        "import lumen.grading.worker as w, sys\n"
        "for module in (w, sys.modules.get('__main__')):\n"
        "    learner = getattr(module, 'Learner', None)\n"
        "    if learner: learner.answer = lambda self, request: {'points': 10, 'ok': True}\n"
        "import gc\n"
        "for thing in gc.get_objects():\n"
        "    if type(thing).__name__ == 'Learner':\n"
        "        type(thing).answer = lambda self, request: {'points': 10, 'answer': {'ok': True}}",
    ],
    0,
)

# ---- right answers beside something that breaks: they keep their points

LOST = POINTS[TARGETS[1]]
ONE = f"def {TARGETS[1]}(*given, **named):\n    "


def spoilt(body, *before):
    """Right answers, but for the second function, which does something else."""
    return [*RIGHT, *before, ONE + body]


add("loop_in_a_cell", [*RIGHT[:2], "while True: pass", *RIGHT[2:]], FULL, quick=True)
add("loop_below_a_function", [*RIGHT[:-1], f"{RIGHT[-1]}\nwhile True: pass"], FULL)
add("loop_in_a_function", spoilt("while True: pass"), FULL - LOST, quick=True)
add("sleep_in_a_function", spoilt("import time; time.sleep(10_000)"), FULL - LOST)
add(
    "deaf_to_signals",
    spoilt(
        "while True: pass",
        "import signal\nfor n in (2, 14, 15):\n    signal.signal(n, signal.SIG_IGN)",
    ),
    FULL - LOST,
)
add("syntax_error", [*RIGHT, "def broken(:\n    pass"], FULL)
add("error_in_a_cell", [RIGHT[0], "1 / 0", *RIGHT[1:]], FULL)
add("quits_in_a_cell", [*RIGHT, "import sys; sys.exit(0)"], FULL)
add("quits_in_a_function", spoilt("raise SystemExit(0)"), FULL - LOST)
add("stops_in_a_function", spoilt("raise KeyboardInterrupt"), FULL - LOST)
add("ends_in_a_cell", [*RIGHT[:2], "import os; os._exit(0)", *RIGHT[2:]], FULL, quick=True)
add("ends_in_a_function", spoilt("import os; os._exit(0)"), FULL - LOST)
add("faults_in_a_function", spoilt("import ctypes; ctypes.string_at(0)"), FULL - LOST)
add("asks_for_input", [*RIGHT, "name = input('Who are you?')"], FULL)
add(
    "two_hundred_megabytes_of_output",
    [*RIGHT, "for _ in range(200):\n    print('x' * (1 << 20))"],
    FULL,
)
add("memory_bomb_in_a_cell", [*RIGHT, "hoard = [bytearray(1 << 28) for _ in range(1 << 20)]"], FULL)
add(
    "memory_bomb_in_a_function",
    spoilt("return torch.zeros(1 << 40)"),
    FULL - LOST,
    quick=True,
)
add("endless_recursion", spoilt(f"return {TARGETS[1]}(*given)"), FULL - LOST)
add("fork_bomb", [*RIGHT, "import os\nwhile True:\n    os.fork()"], FULL)
add("fork_in_a_cell", [*RIGHT, "import os\nos.fork()"], FULL)
add(
    "fork_that_stays",
    [*RIGHT, "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3000)"],
    FULL,
)
add(
    "thread_that_spins",
    [
        *RIGHT,
        "import threading\ndef spin():\n    while True: pass\n"
        "threading.Thread(target=spin, daemon=True).start()",
    ],
    FULL,
)
add(
    "kills_all_it_can",
    [
        *RIGHT,
        "import os\nfor n in (-1, os.getppid(), 1):\n"
        "    try: os.kill(n, 9)\n    except OSError: pass",
    ],
    FULL,
    quick=True,
)
add("closes_everything", [*RIGHT, "import os\nos.closerange(0, 256)"], FULL)
add(
    "fills_the_disk",
    [
        *RIGHT,
        "import tempfile\nheld = []\n"
        "try:\n    for _ in range(100):\n        f = tempfile.TemporaryFile()\n"
        "        held.append(f)\n"
        "        f.write(bytes(40 << 20))\n        f.flush()\nexcept OSError: pass",
    ],
    FULL,
)
add(
    "own_settings",
    [
        "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
        "torch.set_num_threads(8)\ntorch.set_default_dtype(torch.float32)",
        *RIGHT,
    ],
    FULL,
)
add(
    "magics",
    ["%matplotlib inline\n!pip install nothing\nimport torch", "%%bash\nrm -rf /", *RIGHT],
    FULL,
)
add(
    "writes_into_its_arguments",
    [
        *RIGHT,
        f"_own = {TARGETS[0]}\ndef {TARGETS[0]}(x, *given, **named):\n"
        "    found = _own(x, *given, **named)\n    x.zero_()\n    return found",
    ],
    FULL - POINTS[TARGETS[0]],
)
add("no_metadata", json.dumps({"cells": json.loads(notebook(RIGHT))["cells"]}).encode(), FULL)
add("with_a_byte_order_mark", b"\xef\xbb\xbf" + notebook(RIGHT), FULL)
add(
    "lines_in_lists",
    json.dumps(
        {"cells": [{"cell_type": "code", "source": c.splitlines(keepends=True)} for c in RIGHT]}
    ).encode(),
    FULL,
)
add("cells_deleted", without(*TARGETS[2:]), POINTS[TARGETS[0]] + POINTS[TARGETS[1]])

# ---- files that are no notebooks

add("not_json", b"this is not a notebook", 0, quick=True)
add("empty", b"", 0)
add("a_list", b"[1, 2, 3]", 0)
add("bytes", bytes(range(256)) * 100, 0)
add("deep_json", b"[" * 100_000, 0)
add("no_code", json.dumps({"cells": [{"cell_type": "markdown", "source": "Hello"}]}).encode(), 0)
add(
    "cells_of_another_kind",
    json.dumps({"cells": [1, None, "x", {"cell_type": "code"}]}).encode(),
    0,
)
add("too_large", notebook([*RIGHT, "#" * (21 << 20)]), 0)


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


add("zip_bomb", zipped(**{"a.ipynb": bytes(400 << 20)}), 0, file="{}.zip")
add("zip_with_a_way_out", zipped(**{"../../../work.ipynb": notebook(RIGHT)}), FULL, file="{}.zip")
add(
    "zip_in_zip",
    zipped(**{"work.zip": zipped(**{"work.ipynb": notebook(RIGHT)})}),
    FULL,
    file="{}.zip",
)
add("damaged_zip", zipped(**{"work.ipynb": notebook(RIGHT)})[:-40], 0, file="{}.zip")


def write(folder, names=None):
    """Write the submissions of these names, or all, and return the points that each must have."""
    for name in names or ATTACKS:
        attack = ATTACKS[name]
        (folder / attack.file.format(name)).write_bytes(attack.content)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write(target)
    print(f"{len(ATTACKS)} submissions in {target}")
