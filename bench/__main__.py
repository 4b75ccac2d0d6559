"""python -m bench [--only NAME] [--quick]: time every layer, and write what was seen.

Only a whole run writes a page and a picture into bench/results; any other prints its tables.
"""

import argparse
import sys
from pathlib import Path

from bench.layers import LAYERS
from bench.measure import measure, peaks
from bench.models import MODELS
from bench.report import head, picture, tables
from bench.timing import settle

RESULTS = Path(__file__).parent / "results"
WEIGHED = ("attention", "MultiHeadAttention", "Conv1d", "Conv2d", "Conv2d, depthwise")


def main(arguments: list[str] | None = None, folder: Path = RESULTS) -> None:
    """Run the bench as the command line asks."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="the layers whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="chapter sizes, a glance at each")
    parser.add_argument("--seconds", type=float, default=0.6, help="for each two ways (0.6)")
    asked = parser.parse_args(arguments)
    entries = [e for e in [*LAYERS, *MODELS] if asked.only.lower() in e.name.lower()]
    if not entries:
        parser.error(f"no layer has {asked.only!r} in its name")
    seconds = 0.01 if asked.quick else asked.seconds
    settle()
    results = []
    for entry in entries:
        for larger in (False,) if asked.quick else (False, True):
            print(f"{entry.name}, {'larger' if larger else 'teaching'} size", file=sys.stderr)
            results += measure(entry, larger, seconds)
    text = tables(results, {e.name: peaks(e) for e in entries if e.name in WEIGHED})
    if asked.only or asked.quick:
        print(text)
        return
    folder.mkdir(exist_ok=True)
    picture(results, folder / "ratios.png")
    text = head(results, seconds, "ratios.png") + text
    (folder / "table.md").write_text(text, encoding="utf-8")
    print("bench/results/table.md and bench/results/ratios.png are written")


if __name__ == "__main__":
    main()
