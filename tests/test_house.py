"""The house rules of the package, held by tests.

Each rule is a function that takes a text and gives its faults, so that it can be seen to fail: the
second half of this file plants a fault for every one of them.
"""

import ast
import doctest
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from docutils.core import publish_doctree
from sphinx.ext.napoleon import Config, GoogleDocstring
from torch import nn

ROOT = Path(__file__).resolve().parents[1]

# ---- arrows: what each room may import from the package

FLOORS = [
    {"activation", "dense", "dropout", "embedding", "init"},
    {"conv", "norm", "pooling", "position", "recurrent", "residual"},
    {"attention"},
    {"block"},
    {"decoder", "encoder", "seq2seq"},
]
LAYERS = set().union(*FLOORS)
ARROWS = {room: set().union(*FLOORS[:i]) for i, floor in enumerate(FLOORS) for room in floor}
for model in FLOORS[-1]:
    ARROWS[model] |= {"count"}  # what they are made from
ARROWS["encoder"] |= {"pretrained"}
ARROWS |= {
    "": set(),  # lumen/__init__.py
    "count": {"count"},
    "pretrained": {"count"},
    "data": {"data"},
    "book": {"book"},
    "grading": {"grading", "book"},
    "exercises": {"exercises", "grading", "count"} | LAYERS,
}
OUTSIDE = dict.fromkeys(LAYERS, {"torch"}) | {
    "": set(),
    "count": set(),
    "data": {"torch", "numpy", "sklearn"},
    "pretrained": {"torch", "safetensors"},
    "book": {"torch", "numpy", "matplotlib", "font_source_sans_pro"},
    "grading": {"torch", "matplotlib"},
    "exercises": {"torch", "numpy"},
}


def imported(tree):
    """Every module that a file names in an import, with the names it takes from there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


def arrow_faults(room, source):
    if room not in ARROWS:
        return [f"lumen/{room} is in no table of tests/test_house.py: say what it may import"]
    faults = []
    for module, name in imported(ast.parse(source)):
        top, *inner = module.split(".")
        if module.startswith("."):
            faults.append(f"a relative import: {module} {name}")
        elif name == "*":
            faults.append(f"a wildcard import from {module}")
        elif top == "lumen":
            target = (inner or [name or ""])[0]
            if target not in ARROWS[room]:
                faults.append(f"{room or 'lumen'} may not import lumen.{target}")
        elif top not in OUTSIDE[room] | set(sys.stdlib_module_names):
            faults.append(f"{room or 'lumen'} may not import {top}")
    return faults


# ---- the layers of torch are oracles: lumen does not use what it teaches

OF_NN = {"Module", "ModuleDict", "ModuleList", "Parameter", "ParameterList", "init"}
TAUGHT = {name for name in dir(F) if callable(getattr(torch, name, None))} - {"Tensor", "tanh"}
TAUGHT |= {"gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_tanh", "special", "ops", "_C"}
METHODS = {name for name in TAUGHT if hasattr(torch.Tensor, name)}


def torch_faults(source):
    tree = ast.parse(source)
    aliases, faults = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                faults += taught(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                faults += taught(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = dotted(node, aliases)
            faults += taught(path) if path else []
            on_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not path and not on_self and node.attr in METHODS:
                faults.append(f"the method .{node.attr} of a tensor")
    return faults


def dotted(node, aliases):
    """The full path of an attribute that starts at something imported, or None."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        start = dotted(node.value, aliases)
        return start and f"{start}.{node.attr}"
    return None


def taught(path):
    parts = path.split(".")
    if parts[0] != "torch" or len(parts) == 1:
        return []
    if parts[1] == "nn":
        return [] if len(parts) == 2 or parts[2] in OF_NN else [f"torch's own layer: {path}"]
    return [f"torch's own function: {path}"] if parts[1] in TAUGHT else []


# ---- docstrings

SECTIONS = [
    "Args",
    "Shape",
    "Weights",
    "Cost",
    "Raises",
    "Differs from",
    "Source",
    "Example",
]


def docstring_faults(doc, required=(), equation=False):
    """What it lacks: one sentence, then the equation, then the sections in the house's order."""
    if not doc:
        return ["there is none"]
    paragraphs = inspect.cleandoc(doc).split("\n\n")
    faults = []
    summary = paragraphs[0]
    if "\n" in summary or not re.fullmatch(r"[^.!?]*(?:[.!?]\S[^.!?]*)*\.", summary):
        faults.append(f"it does not start with one sentence on one line: {summary!r}")
    if equation and not re.match(r"``[^`]+``", "".join(paragraphs[1:2])):
        faults.append("the second paragraph is not the equation")
    found = []
    for heading, body in re.findall(
        r"^(\S[^\n]*):\n((?: +[^\n]*\n?|\n)+)", inspect.cleandoc(doc), re.M
    ):
        found.append(heading)
        if heading not in SECTIONS:
            faults.append(f"there is no section {heading!r} in this house")
        if not body.strip():
            faults.append(f"{heading} is empty")
        if heading == "Example" and ">>>" not in body:
            faults.append("the example does not run")
    known = [heading for heading in found if heading in SECTIONS]
    if known != sorted(set(known), key=SECTIONS.index):
        faults.append(f"the sections stand in the order {known}")
    faults += [f"{heading} is missing" for heading in required if heading not in found]
    return faults


def rst_faults(doc):
    """What Sphinx would complain about, napoleon's sections included."""
    custom = [heading for heading in SECTIONS if heading not in ("Args", "Raises", "Example")]
    doc = GoogleDocstring(inspect.cleandoc(doc), Config(napoleon_custom_sections=custom))
    said = io.StringIO()
    publish_doctree(str(doc), settings_overrides={"warning_stream": said})
    return said.getvalue().splitlines()


# ---- signatures


def signature_faults(thing, contract):
    """What differs between a callable and its contract; more keyword options are welcome."""
    wanted = ast.parse(f"def f({contract}): ...").body[0].args
    names = [a.arg for a in wanted.args]
    defaults = dict(zip(reversed(names), reversed(wanted.defaults), strict=False))
    options = dict(zip((a.arg for a in wanted.kwonlyargs), wanted.kw_defaults, strict=True))
    given = inspect.signature(thing).parameters
    known = vars(sys.modules[thing.__module__])
    positional = [p.name for p in given.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    faults = []
    if positional[: len(names)] != names:
        faults.append(f"it takes {positional}, not {names}")
    for name, default in (defaults | options).items():
        if name not in given:
            faults.append(f"it does not take {name}")
        elif default is not None and given[name].default != eval(ast.unparse(default), {**known}):
            faults.append(f"{name} is {given[name].default!r} by default")
    for name in options:
        if name in given and given[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            faults.append(f"{name} can be given without its name")
    for name, parameter in given.items():
        new = name not in names and name not in options
        if new and parameter.default is parameter.empty:
            faults.append(f"it cannot do without {name}")
    return faults


# ---- what an import costs

HEAVY = {"matplotlib", "sklearn", "transformers"}
COLD = """
import gc, sys, time
import torch
gc.freeze()  # a collection of what torch made is nobody's import
for module in {modules}:
    start = time.process_time()
    __import__(module)
    print(module, time.process_time() - start)
print("brought", *({heavy} & set(sys.modules)))
"""


def import_faults(modules, limit=0.05, tries=3):
    """What is slow behind torch in every try, by the processor's clock, or brings what is heavy."""
    best = dict.fromkeys(modules, float("inf"))
    code = [sys.executable, "-c", COLD.format(modules=list(modules), heavy=HEAVY)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(tries):  # the first compiles
        run = subprocess.run(code, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        *times, (_, *heavy) = (line.split() for line in run.stdout.splitlines())
        if heavy:
            return [f"brings {name}" for name in sorted(heavy)]
        for module, seconds in times:
            best[module] = min(best[module], float(seconds))
        if max(best.values()) < limit:
            return []
    return [f"{module}: {took:.3f} s" for module, took in best.items() if took >= limit]


# ---- form

BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
MACHINE = re.compile(r"(?<![\w.:/-])/(?:home|root|work|Users)/\w|\b[A-Z]:\\\\?Users\b")


def width_faults(source):
    """Lines of code that a page cannot show; docstrings are not shown there."""
    docs = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            docs |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return [
        f"line {i} has {len(line)} columns" for i, line in lines if i not in docs and len(line) > 76
    ]


def comment_faults(source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = sum(token.type == tokenize.COMMENT for token in tokens)
    lines = len(source.splitlines())
    return [f"{comments} comments in {lines} lines"] if comments > 0.05 * lines else []


def assert_faults(source):
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert))
    return [f"line {node.lineno} asserts: raise ValueError" for node in nodes]


def name_faults(path):
    bad = BAD_NAMES & {Path(part).stem for part in path.parts}
    return [f"{path}: a room called {bad.pop()!r} holds no idea"] if bad else []


def path_faults(text):
    return [f"the path of a machine: {match.group()}" for match in MACHINE.finditer(text)]


# ---- the tree


def python_files(*folders):
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py"))


def room_of(path):
    return path.relative_to(ROOT / "lumen").parts[0].removesuffix(".py").replace("__init__", "")


def text_files():
    kinds = {
        ".py",
        ".md",
        ".toml",
        ".yml",
        ".yaml",
        ".css",
        ".js",
        ".txt",
        ".bib",
        ".cff",
        ".ipynb",
    }
    skipped = {"_build", "__pycache__", "node_modules"}
    for top in sorted(ROOT.iterdir()):
        if top.name.startswith(".") and top.name not in (".github", ".ci"):
            continue
        for path in [top, *sorted(top.rglob("*"))]:
            wanted = path.suffix in kinds or path.name in ("Makefile", "run")
            if wanted and path.is_file() and not skipped & set(path.parts):
                yield path


LUMEN = python_files("lumen")
LAYER_FILES = [path for path in LUMEN if room_of(path) in LAYERS]
COUNTED_FILES = [
    *LAYER_FILES,
    ROOT / "lumen" / "pretrained.py",
    *sorted((ROOT / "lumen" / "count").glob("[a-z]*.py")),
]
COUNTED_FILES += sorted((ROOT / "lumen" / "data").glob("[a-z]*.py"))


def by_name(paths):
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


def module_at(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return importlib.import_module(name.removesuffix(".__init__"))


def public(module):
    return {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    }


@pytest.mark.parametrize("path", by_name(LUMEN))
def test_arrows_run_from_simple_to_composed(path):
    assert arrow_faults(room_of(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", by_name(LAYER_FILES))
def test_layers_are_not_made_of_torch_layers(path):
    assert torch_faults(path.read_text(encoding="utf-8")) == []


def is_layer(thing):
    return inspect.isclass(thing) and issubclass(thing, nn.Module)


@pytest.mark.parametrize("path", by_name(COUNTED_FILES))
def test_docstrings_keep_the_order_of_the_house(path):
    module = module_at(path)
    assert module.__doc__ and "\n" in module.__doc__
    things = public(module)
    assert things
    faults = []
    for name, thing in things.items():
        whole = is_layer(thing) or name == "attention"
        if whole:
            faults += [(name, f) for f in docstring_faults(thing.__doc__, SECTIONS, equation=True)]
        elif inspect.isclass(thing):
            faults += [(name, f) for f in docstring_faults(thing.__doc__)]
        elif callable(thing):
            faults += [(name, f) for f in docstring_faults(thing.__doc__, ["Example"])]
        if inspect.isclass(thing):
            told = {"forward", "extra_repr"} if is_layer(thing) else set()
            for part, method in vars(thing).items():
                method = method.fget if isinstance(method, property) else method
                if inspect.isfunction(method) and not part.startswith("_"):
                    missing = part in told and not method.__doc__
                    faults += (
                        []
                        if missing
                        else [(name, part, f) for f in docstring_faults(method.__doc__)]
                    )
    assert faults == []


@pytest.mark.parametrize("path", by_name(COUNTED_FILES))
def test_docstrings_can_be_set(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    docs = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    assert [fault for doc in docs if doc for fault in rst_faults(doc)] == []


@pytest.mark.parametrize("path", by_name(LUMEN))
def test_examples_run(path):
    module = module_at(path)
    runner = doctest.DocTestRunner()
    said = io.StringIO()
    for test in doctest.DocTestFinder().find(module, module.__name__):
        runner.run(test, out=said.write)
    assert runner.failures == 0, said.getvalue()
    assert runner.tries > 0 or path not in COUNTED_FILES


RECURRENT = "input_size, hidden_size, num_layers=1, bidirectional=False"
API = {
    ("dense", "Linear"): "in_features, out_features, bias=True",
    ("activation", "relu"): "x",
    ("activation", "leaky_relu"): "x",
    ("activation", "sigmoid"): "x",
    ("activation", "tanh"): "x",
    ("activation", "gelu"): "x, approximate='none'",
    ("activation", "silu"): "x",
    ("activation", "softmax"): "x, dim",
    ("conv", "conv1d"): "x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
    ("conv", "conv2d"): "x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
    ("conv", "Conv1d"): (
        "in_channels, out_channels, kernel_size, "
        "stride=1, padding=0, dilation=1, groups=1, bias=True"
    ),
    ("conv", "Conv2d"): (
        "in_channels, out_channels, kernel_size, "
        "stride=1, padding=0, dilation=1, groups=1, bias=True"
    ),
    ("pooling", "MaxPool2d"): "kernel_size, stride=None, padding=0, *, ceil_mode=False",
    ("pooling", "AvgPool2d"): (
        "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True"
    ),
    ("pooling", "GlobalAvgPool2d.forward"): "self, x",
    ("pooling", "global_avg_pool2d"): "x",
    ("embedding", "Embedding"): "num_embeddings, embedding_dim",
    ("position", "sinusoidal"): "n, d",
    ("position", "LearnedPositions"): "n_positions, d",
    ("position", "rope"): "x, positions, *, base=10000.0, layout='halves'",
    ("norm", "LayerNorm"): "d, eps=1e-5",
    ("norm", "RMSNorm"): "d, eps=1e-6",
    ("norm", "BatchNorm1d"): "num_features, eps=1e-5, momentum=0.1",
    ("norm", "BatchNorm2d"): "num_features, eps=1e-5, momentum=0.1",
    ("residual", "Residual"): "f",
    ("dropout", "Dropout"): "p",
    ("recurrent", "rnn_step"): "a, h, weight",
    ("recurrent", "lstm_step"): "a, state, weight",
    ("recurrent", "gru_step"): "a, h, weight, bias, reset_after=True",
    ("recurrent", "unroll"): "step, a, state, reverse=False",
    ("recurrent", "RNN"): RECURRENT,
    ("recurrent", "LSTM"): RECURRENT,
    ("recurrent", "GRU"): f"{RECURRENT}, *, reset_after=True",
    ("recurrent", "LSTM.forward"): "self, x, state=None",
    ("attention", "attention"): "q, k, v, *, mask=None, causal=False, return_weights=False",
    ("attention", "MultiHeadAttention"): (
        "d_model, n_heads, *, n_kv_heads=None, bias=True, dropout=0.0, rope=None, rope_base=1e4"
    ),
    ("attention", "MultiHeadAttention.forward"): (
        "self, x, *, context=None, mask=None, causal=False, cache=None, positions=None"
    ),
    ("attention", "KVCache"): "",
    ("attention", "KVCache.append"): "self, k, v",
    ("init", "gpt2_init_"): "model, n_layers",
    ("block", "MLP"): "d_model, d_ff=None, dropout=0.0",
    ("block", "SwiGLU"): "d_model, d_ff=None, dropout=0.0",
    ("block", "TransformerBlock"): (
        "d_model, n_heads, d_ff=None, dropout=0.0, *, norm_first=True, norm=LayerNorm, mlp=MLP, "
        "n_kv_heads=None"
    ),
    ("block", "TransformerBlock.forward"): (
        "self, x, *, mask=None, causal=False, cache=None, positions=None"
    ),
    ("data", "digits"): "part='all'",
    ("data", "place"): "images, places, size",
    ("data", "placed_digits"): "n, size=14, *, seed, part='train'",
    ("data", "shapes"): "n, size=32, *, seed",
    ("data", "photo"): "name='china', *, shrink=1",
    ("data", "spirals"): "n, *, seed, arms=2, turns=1.0, noise=0.05",
    ("data", "adding"): "n, span, *, seed",
    ("data", "recall"): "n, span, symbols=8, *, seed",
    ("data", "repeats"): "n, length=24, symbols=20, *, seed, shortest=4, longest=12",
    ("data", "counting"): "n, longest, *, seed, shortest=1",
    ("data", "sentences"): "n, *, seed",
    ("data", "encode"): "sentences",
    ("data", "text"): "n_characters, *, seed",
    ("data", "entropy"): "unit='character'",
    ("data", "log_probability"): "sentence",
    ("data", "translation"): "n, *, seed, part='train'",
    ("encoder", "Bert"): "config",
    ("encoder", "Bert.from_pretrained"): "folder",
    ("encoder", "Bert.forward"): "self, ids, *, mask=None, token_types=None",
    ("encoder", "mean_pool"): "states, mask",
    ("block", "norm_named"): "name, eps=None",
    ("block", "mlp_named"): "name, bias=True",
    ("block", "kept_length"): "caches, layers, batch",
    ("block", "CrossAttentionBlock"): (
        "d_model, n_heads, d_ff=None, dropout=0.0, *, norm_first=True, norm=LayerNorm, mlp=MLP"
    ),
    ("block", "CrossAttentionBlock.forward"): (
        "self, x, context, *, mask=None, causal=False, context_mask=None, cache=None"
    ),
    ("decoder", "GPT"): "config",
    ("decoder", "GPT.forward"): "self, ids, *, cache=None, return_weights=False",
    ("decoder", "GPT.states"): "self, ids",
    ("decoder", "GPT.new_cache"): "self",
    ("decoder", "GPT.generate"): (
        "self, ids, n, *, temperature=0.0, top_k=None, top_p=None, generator=None, use_cache=True"
    ),
    ("decoder", "token_shares"): "logits, *, temperature=1.0, top_k=None, top_p=None",
    ("decoder", "logit_lens"): "gpt, ids",
    ("seq2seq", "EncoderDecoder"): "config",
    ("seq2seq", "EncoderDecoder.forward"): "self, source, target, *, mask=None",
    ("seq2seq", "EncoderDecoder.encode"): "self, source, *, mask=None",
    ("seq2seq", "EncoderDecoder.decode"): "self, target, states, *, mask=None, cache=None",
    ("seq2seq", "EncoderDecoder.new_cache"): "self",
    ("seq2seq", "relative_bucket"): "distance, *, causal",
    ("count", "count"): "module",
    ("count", "recurrent_params"): (
        "kind, input_size, hidden_size, layers=1, directions=1, *, biases=2"
    ),
    ("count", "recurrent_flops"): "kind, input_size, hidden_size, layers=1, directions=1",
    ("count", "conv_params"): "in_channels, out_channels, kernel_size, *, groups=1, bias=True",
    ("count", "conv_flops"): "in_channels, out_channels, kernel_size, *, groups=1",
    ("count", "receptive_field"): "layers",
    ("count", "kv_cache_bytes"): "tokens, *, layers, n_kv_heads, d_head",
    ("count", "transformer_params"): "d, layers, vocab, ffn_mult=4, tie_embeddings=True",
    ("count", "flops_per_token"): "config, context, *, causal=False",
    ("count", "training_flops"): "config, tokens, context=0, *, causal=False",
    ("count", "crossover"): "config, part='block', *, causal=False",
    ("count", "DecoderConfig"): "vocab_size, d_model, n_layers, n_heads, n_kv_heads=None",
    ("count", "EncoderConfig"): "vocab_size, d_model, n_layers, n_heads, d_ff=None",
    ("count", "EncoderDecoderConfig"): "vocab_size, d_model, n_layers, n_heads, d_ff=None",
    ("count", "ResNetConfig"): "blocks, bottleneck=False, n_classes=1000",
    ("count", "VggConfig"): "convolutions, n_classes=1000",
    ("count", "Config.parameters"): "self",
    ("count", "DecoderConfig.kv_cache_bytes"): "self, tokens, *, batch=1, bytes_per_value=2",
    ("count", "EncoderDecoderConfig.kv_cache_bytes"): (
        "self, tokens, *, source=0, batch=1, bytes_per_value=2"
    ),
    ("count", "EncoderDecoderConfig.flops"): "self, source, target",
    ("count", "ResNetConfig.flops"): "self, size=224",
    ("count", "ResNetConfig.layers"): "self",
}


@pytest.mark.parametrize(("module", "name"), API)
def test_names_and_arguments_are_those_of_the_house(module, name):
    thing = importlib.import_module(f"lumen.{module}")
    for part in name.split("."):
        thing = getattr(thing, part)
    assert signature_faults(thing, API[module, name]) == []


@pytest.mark.parametrize(
    ("module", "kept_out"),
    [
        ("lumen", ["torch", "numpy", "matplotlib", "transformers"]),
        ("lumen.count", ["torch", "numpy", "matplotlib", "transformers"]),
        ("lumen.encoder", ["matplotlib", "transformers", "safetensors"]),
    ],
)
def test_an_import_pulls_in_no_more_than_it_needs(module, kept_out):
    code = f"import sys, {module}; print(sorted(set({kept_out}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_an_import_is_light_and_quick():
    rooms = [path for path in LUMEN if room_of(path) != "book"]
    assert import_faults([module_at(path).__name__ for path in rooms]) == []


@pytest.mark.parametrize("path", by_name(COUNTED_FILES))
def test_code_fits_the_page_and_speaks_for_itself(path):
    source = path.read_text(encoding="utf-8")
    assert width_faults(source) + comment_faults(source) == []


# Exercises hold wrong answers on purpose, one of which asserts.
@pytest.mark.parametrize("path", by_name(p for p in LUMEN if room_of(p) != "exercises"))
def test_a_readers_mistake_is_never_an_assertion(path):
    assert assert_faults(path.read_text(encoding="utf-8")) == []


def test_no_room_is_a_lumber_room():
    files = python_files("lumen", "tools", "tests", "bench")
    assert [fault for path in files for fault in name_faults(path.relative_to(ROOT))] == []


def test_nothing_takes_everything_from_a_module():
    files = python_files("lumen", "tools", "tests", "bench")
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in files)
    assert [path.name for path, tree in trees for _, name in imported(tree) if name == "*"] == []


def test_no_file_knows_the_machine_it_was_written_on():
    faults = [
        (str(path.relative_to(ROOT)), fault)
        for path in text_files()
        for fault in path_faults(path.read_text(encoding="utf-8"))
    ]
    assert faults == []


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_ruff_is_content(command):
    command = [sys.executable, "-m", "ruff", *command, "--no-cache", "--quiet", "."]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


# ---- the rules can fail


@pytest.mark.parametrize(
    ("room", "source", "fault"),
    [
        ("dense", "from lumen.attention import attention", "may not import lumen.attention"),
        ("dense", "from lumen.activation import relu", "may not import lumen.activation"),
        ("norm", "import lumen.position", "may not import lumen.position"),
        ("attention", "from lumen import block", "may not import lumen.block"),
        ("attention", "import lumen", "may not import lumen."),
        ("attention", "from lumen.book import facts", "may not import lumen.book"),
        ("attention", "def f():\n    from lumen.count import count", "may not import lumen.count"),
        ("attention", "from .dense import Linear", "a relative import"),
        ("attention", "from lumen.dense import *", "a wildcard import"),
        ("attention", "import numpy as np", "may not import numpy"),
        ("attention", "from tests.oracle import agree", "may not import tests"),
        ("attention", "from bench.timing import duel", "may not import bench"),
        ("count", "import torch", "may not import torch"),
        ("count", "from lumen.dense import Linear", "may not import lumen.dense"),
        ("book", "from lumen.attention import attention", "may not import lumen.attention"),
        ("grading", "from lumen.exercises import SETS", "may not import lumen.exercises"),
        ("grading", "from lumen.dense import Linear", "may not import lumen.dense"),
        ("exercises", "from lumen.book import facts", "may not import lumen.book"),
        ("", "from lumen.dense import Linear", "lumen may not import lumen.dense"),
        ("", "import torch", "lumen may not import torch"),
        ("attic", "import math", "in no table"),
    ],
)
def test_arrows_can_fail(room, source, fault):
    assert [fault in found for found in arrow_faults(room, source)] == [True]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("attention", "import math\nimport torch\nfrom lumen.dense import Linear"),
        ("attention", "from lumen import dense, position"),
        ("block", "from lumen.attention import attention\nfrom lumen.norm import LayerNorm"),
        ("count", "from dataclasses import dataclass"),
        ("book", "from lumen.book.palette import LIGHT\nimport matplotlib.pyplot as plt"),
        ("exercises", "from lumen.grading.question import Question\nimport lumen.attention"),
    ],
)
def test_arrows_raise_no_false_alarm(room, source):
    assert arrow_faults(room, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "from torch import nn\nnn.Linear(2, 2)",
        "import torch.nn as layers\nlayers.LayerNorm(2)",
        "import torch\ntorch.nn.LSTM(2, 2)",
        "from torch.nn import Linear",
        "from torch.nn import Module, Linear as Base",
        "from torch.nn.functional import softmax",
        "import torch.nn.functional as F",
        "from torch.nn import functional",
        "from torch import nn\nnn.functional.scaled_dot_product_attention",
        "import torch\ntorch.softmax(x, -1)",
        "import torch as t\nt.softmax(x, -1)",
        "from torch import layer_norm",
        "import torch\ntorch.conv2d",
        "import torch\ntorch.special.softmax",
        "import torch\ntorch.ops.aten.softmax",
        "def f(x):\n    return x.softmax(-1)",
        "def f(x):\n    return (x @ x).relu()",
    ],
)
def test_torch_layers_are_seen(source):
    assert torch_faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "from torch import Tensor, nn\nclass A(nn.Module):\n    w = nn.Parameter()",
        "import torch\ntorch.exp(x) + torch.tanh(x).amax(-1) @ torch.erf(x)",
        "from lumen.activation import softmax\nsoftmax(x, -1)",
        "class A:\n    def f(self, x):\n        return self.dropout(x) + self.embedding",
        "# nn.Linear(2, 2)\n'''F.softmax'''",
    ],
)
def test_torch_layers_raise_no_false_alarm(source):
    assert torch_faults(source) == []


WHOLE = """Say it.

    ``y = x``

    More words: a few.

    Args:
        x: numbers.

    Shape:
        any → the same

    Weights:
        ``0``

    Cost:
        ``0``

    Raises:
        ValueError: x is bad.

    Differs from:
        nothing

    Source:
        Someone (1999).

    Example:
        >>> 1
        1
    """


@pytest.mark.parametrize("text", ["for |x| > 88", "``y = x`", "*args", "A list:\n  - a\n b"])
def test_setting_rule_can_fail(text):
    assert rst_faults(f"Say it.\n\n{text}\n")
    assert rst_faults(f"Say it.\n\nRaises:\n    ValueError: {text}\n")
    assert rst_faults(WHOLE) == []


def test_docstring_rule_is_content_with_a_whole_one():
    assert docstring_faults(WHOLE, SECTIONS, equation=True) == []
    assert docstring_faults("Divide by √d_k, 11.3 for a head of width 128.") == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        (WHOLE, "", "there is none"),
        ("Say it.", "Say it. Twice.", "one sentence"),
        ("Say it.", "Say it\n    on two lines.", "one sentence"),
        ("Say it.", "Say it", "one sentence"),
        ("``y = x``", "y = x", "equation"),
        ("    ``y = x``\n\n", "", "equation"),
        ("Args:\n        x: numbers.\n\n    ", "", "Args is missing"),
        ("Differs from:\n        nothing\n\n    ", "", "Differs from is missing"),
        ("Differs from:", "Differs:", "no section 'Differs'"),
        ("Source:", "References:", "no section 'References'"),
        ("Weights:", "Cost:", "order"),
        ("Shape:", "Example:", "order"),
        (">>> 1\n        1", "1", "does not run"),
    ],
)
def test_docstring_rule_can_fail(before, after, fault):
    assert before in WHOLE
    found = docstring_faults(WHOLE.replace(before, after, 1), SECTIONS, equation=True)
    assert any(fault in f for f in found)


@pytest.mark.parametrize(
    ("contract", "fault"),
    [
        ("a, c", "it takes"),
        ("b, a", "it takes"),
        ("a, b=2, *, c=3", "b is 1 by default"),
        ("a, b=1, *, c=4", "c is 3 by default"),
        ("a, b=1, *, d=3", "it does not take d"),
        ("a, *, b=1", "b can be given without its name"),
        ("*, c=3", "it cannot do without a"),
    ],
)
def test_signature_rule_can_fail(contract, fault):
    def thing(a, b=1, *, c=3): ...

    assert any(fault in found for found in signature_faults(thing, contract))
    assert signature_faults(thing, "a, b=1") == signature_faults(thing, "a, b=1, *, c=3") == []


def test_form_rules_can_fail():
    wide = "x = 1  # " + "-" * 68
    assert width_faults(wide) == ["line 1 has 77 columns"] and width_faults(wide[:-1]) == []
    assert width_faults(f'"""{"-" * 90}"""') == []
    assert comment_faults("# why\nx = 1\n") and comment_faults("x = 1\n" * 20 + "# why\n") == []
    assert assert_faults("def f(x):\n    assert x") == ["line 2 asserts: raise ValueError"]
    assert name_faults(Path("lumen/utils.py")) and name_faults(Path("lumen/helpers/a.py"))
    assert name_faults(Path("lumen/attention.py")) == []


def test_path_rule_can_fail():
    for place in ("home/ann", "root/book", "Users/ann", "work/main"):
        assert path_faults(f"open('/{place}/x')") and path_faults(f"see /{place}")
    assert path_faults("C:\\" + "Users\\ann") and path_faults("C:\\\\" + "Users\\\\ann")
    for text in (
        "/usr/bin/chromium",
        "https://a.org/home/x",
        "docs/home/x",
        "a / work / b",
        "~/work",
    ):
        assert path_faults(text) == []


def test_import_rule_can_fail():
    assert import_faults(["lumen.dense", "matplotlib"], tries=1) == ["brings matplotlib"]
    (fault,) = import_faults(["lumen.dense"], limit=0.0, tries=1)
    assert fault.startswith("lumen.dense: 0.0")


def test_example_rule_can_fail():
    def wrong():
        """>>> 1 + 1
        3
        """

    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(wrong, "wrong", globs={}):
        runner.run(test, out=lambda text: None)
    assert runner.failures == 1
