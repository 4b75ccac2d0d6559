"""What was measured, as a page of Markdown and one picture."""

import platform
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import FixedLocator, NullLocator

from bench.measure import TORCH, Result
from lumen.book.palette import LIGHT
from lumen.book.plot import setup

HEAD = """\
# How fast, beside torch and beside the usual ways by hand

Made by `make bench`: {machine}; one thread, CPU time.
Two ways run in turns, A B A B …, for {seconds:g} s and five rounds at the least. The ratio is that
of neighbours: its median, and its quartiles in brackets. The process keeps freed memory for itself,
as a long-running one would, so page faults are not in it.

{verdict}

![Ratios of time at the larger size, layer by layer: lumen to torch, and by hand to lumen]({image})
"""
TABLES = """
## lumen ÷ torch

Below 1, lumen is faster. Torch's layers are kernels written in C++ for this processor; lumen's are
a few lines of tensor operations that can be read. The aims are for the larger size. At the other,
that of the chapters, a call costs more than its arithmetic.

{ratios}

## By hand ÷ lumen

How many times as long the usual ways take that are written by hand (`bench/handwritten.py`). What
would take minutes is left out at the larger size.

{by_hand}

## Memory

The most MiB that a forward pass holds at once at the larger size, without input and weights.
Counted at torch's operations; scratch space inside a kernel is not seen.

{memory}
"""
KEY = {"● forward": "blue", "● with backward": "orange", "| aim": "quiet"}


def head(results: list[Result], seconds: float, image: str) -> str:
    """What was run where, how many aims hold, and the picture."""
    return HEAD.format(machine=machine(), seconds=seconds, verdict=verdict(results), image=image)


def tables(results: list[Result], peaks: dict[str, dict[str, int]]) -> str:
    """All that was measured."""
    parts = {"ratios": ratios(results), "by_hand": by_hand(results), "memory": memory(peaks)}
    return TABLES.format(**parts)


def verdict(results: list[Result]) -> str:
    """How many aims hold, and which do not."""
    aimed = [r for r in results if r.aim]
    missed = [_missed(r) for r in aimed if not r.holds]
    said = f"Of {len(aimed)} aims {len(aimed) - len(missed)} hold."
    return f"{said} Missed: {'; '.join(missed)}." if missed else said


def ratios(results: list[Result]) -> str:
    """One row for each layer and size: lumen's time, and its ratio to torch's."""
    head = ["layer", "input", "beside", "forward, ms", "÷ torch", "aim"]
    head += ["with backward, ms", "÷ torch", "aim"]
    rows = []
    for forward, backward in _pairs([r for r in results if r.rival == TORCH]):
        row = [forward.entry.name, forward.size, forward.entry.against]
        for r in (forward, backward):
            row += [f"{1000 * r.duel.a:.3g}", _ratio(r), _aim(r)] if r else ["", "", ""]
        rows.append(row)
    return _table(head, rows)


def by_hand(results: list[Result]) -> str:
    """One row for each layer, size and way by hand: its ratio to lumen's time."""
    head = ["layer", "input", "by hand", "forward ÷ lumen", "with backward ÷ lumen", "aim"]
    rows = []
    for forward, backward in _pairs([r for r in results if r.rival != TORCH]):
        row = [forward.entry.name, forward.size, forward.rival, _ratio(forward)]
        rows.append([*row, _ratio(backward) if backward else "", _aim(forward)])
    return _table(head, rows)


def memory(peaks: dict[str, dict[str, int]]) -> str:
    """One row for each layer and way."""
    rows = [
        [name, way, f"{peak / 2**20:.1f}"]
        for name, ways in peaks.items()
        for way, peak in ways.items()
    ]
    return _table(["layer", "way", "MiB"], rows, words=2)


def machine() -> str:
    """The processor and the versions, and nothing that only this machine has."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    kind = torch.backends.cpu.get_cpu_capability()
    return f"{processor} ({kind}), Python {platform.python_version()}, torch {torch.__version__}"


def picture(results: list[Result], path: Path) -> None:
    """Draw the ratios at the larger size: to torch on the left, by hand on the right."""
    setup()
    larger = [r for r in results if r.larger]
    left = [r for r in larger if r.rival == TORCH]
    right = [r for r in larger if r.rival != TORCH]
    tall = max(len(set(map(_name, side))) for side in (left, right))
    fig, axes = plt.subplots(1, 2, figsize=(10, 1.2 + 0.27 * tall))
    _dots(axes[0], left, "lumen ÷ torch (left of 1, lumen is faster)")
    _dots(axes[1], right, "by hand ÷ lumen (right of 1, lumen is faster)")
    for place, (text, color) in enumerate(KEY.items()):
        below = {"xytext": (0, -22), "textcoords": "offset points", "va": "top"}
        spot = 0.34 * place, 0
        axes[0].annotate(text, spot, xycoords="axes fraction", color=LIGHT[color], **below)
    fig.savefig(path, metadata={"Software": None})
    plt.close(fig)


def _dots(ax, results, title):
    names = list(dict.fromkeys(map(_name, results)))
    places = {name: -place for place, name in enumerate(names)}
    edges = [x for r in results for x in (r.duel.ratio.low, r.duel.ratio.high, r.aim or 1)]
    low, high = min(edges) / 1.25, max(edges) * 1.25
    ax.axvline(1, color=LIGHT["quiet"], linewidth=0.8, zorder=0)
    ax.hlines(list(places.values()), low, high, color=LIGHT["line"], linewidth=0.6, zorder=0)
    for r in results:
        color, height = LIGHT["orange" if r.backward else "blue"], places[_name(r)]
        height += -0.14 if r.backward else 0.14
        ax.plot(r.duel.ratio.middle, height, "o", color=color, markersize=4.5)
        ax.plot((r.duel.ratio.low, r.duel.ratio.high), (height, height), color=color, linewidth=1.4)
        if r.aim:
            ax.plot(r.aim, height, "|", color=color, markersize=7)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ticks = [tick for tick in (2.0**n for n in range(-6, 16)) if low <= tick <= high]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{tick:g}" for tick in ticks])
    ax.set_yticks(list(places.values()), names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(0.6 - len(names), 0.6)
    ax.spines["left"].set_visible(False)
    ax.set_title(title)


def _pairs(results):
    """Forward and backward of each way side by side, None where there is no backward."""
    pairs = {}
    for r in results:
        pairs.setdefault((r.entry.name, r.larger, r.rival), {})[r.backward] = r
    return [(pair[False], pair.get(True)) for pair in pairs.values()]


def _name(r):
    return r.entry.name if r.rival == TORCH else f"{r.entry.name}: {r.rival}"


def _ratio(r):
    low, middle, high = (f"{x:.2f}" if x < 10 else f"{x:,.0f}" for x in vars(r.duel.ratio).values())
    return f"{middle} [{low}, {high}]"


def _missed(r):
    way = " with backward" if r.backward else ""
    return f"{_name(r)}{way} {r.duel.ratio.middle:.2f} ({_bound(r)})"


def _aim(r):
    return f"{_bound(r)} {'holds' if r.holds else '**missed**'}" if r.aim else ""


def _bound(r):
    return f"{'≤' if r.rival == TORCH else '≥'} {r.aim:g}"


def _table(head, rows, words=3):
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])
