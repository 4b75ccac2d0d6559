"""Numbers in prose: every kind of fault is planted, every kind of false alarm is tried."""

import json
import re
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tools.prose import (
    all_facts,
    check_chapter,
    check_page,
    main,
    misquoted,
    pages,
    read_facts,
    read_keys,
    trailing_literal,
)

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9]*.md"))
PAGES = pages(ROOT)
KEYS = {"krizhevsky2012", "vaswani2017"}
PRINTED = {
    "w": "0.738006",
    "n": "150,528",
    "share": "0.0748",
    "big": "524,288,000",
    "ratio": "84,000.6",
    "table": "16,777,216",
    "tiny": "2.67596e-08",
    "neg": "-0.5",
    "d": "64",
    "ws": "(0.0367432, 0.738006, 0.164671)",
    "widths": "(8, 64, 512)",
}


def cell(source, printed="", **metadata):
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": outputs}


def notebook_for(text):
    """A notebook that prints just the facts that the text names."""
    names = [name for name in PRINTED if f"<!--={name}-->" in text]
    return {"cells": [cell("facts(…)", "\n".join(f"{name} = {PRINTED[name]}" for name in names))]}


def faults(text, notebook=None):
    found = check_chapter(text, notebook or notebook_for(text), KEYS, "chapters/01_x.md")
    return [(fault.line, fault.message) for fault in found]


def planted(text):
    """The faults of a text that starts on line 4 of a chapter."""
    return faults(f"# Title\n\nSome words.\n{text}\n")


# ------------------------------------------------------------------------------------ faults

WRONG_NUMBERS = {
    # wrong digit
    "0.739<!--=w-->": "0.739 is bound to w, which is 0.738006 (cell 0). Write 0.738, or change",
    "$0.739$<!--=w-->": "Write 0.738, or change the cell.",
    "**0.739**<!--=w-->": "Write 0.738, or change the cell.",
    "73.9 %<!--=w-->": "Write 73.8 %, or change the cell.",
    "150,529<!--=n-->": "Write 150,528, or change the cell.",
    "$150{,}529$<!--=n-->": "Write 150{,}528, or change the cell.",
    "151.0k<!--=n-->": "Write 150.5k, or change the cell.",
    "~160,000<!--=n-->": "Write ~150,000, or change the cell.",
    "384.5 MiB<!--=big-->": "Write 500.0 MiB, or change the cell.",
    "$2.6\\times 10^{-8}$<!--=tiny-->": "Write 2.7\\times 10^{-8}, or change the cell.",
    "64.5<!--=d-->": "Write 64.0, or change the cell.",
    "$d_k = 65$<!--=d-->": "65 is bound to d, which is 64",
    "$65 = d_k$<!--=d-->": "65 is bound to d, which is 64",
    "$8^2 + 1$<!--=d-->": "8^{2} + 1 is bound to d, which is 64",
    "$10^{-8}$<!--=tiny-->": "10^{-8} is bound to tiny, which is 2.67596e-08",
    "(0.037, 0.739, 0.165)<!--=ws-->": "0.739 is bound to ws",
    "$(0.037,\\ 0.739,\\ 0.165)$<!--=ws-->": "0.739 is bound to ws",
    "$\\begin{pmatrix} 8&64\\\\513&1 \\end{pmatrix}$<!--=widths-->": "4 numbers bound to widths",
    "$\\begin{pmatrix} 8 \\\\ 64 \\\\ 513 \\end{pmatrix}$<!--=widths-->": "513 is bound to widths",
    "(0.037, 0.738)<!--=ws-->": "2 numbers bound to ws, which has 3",
    "0.738<!--=ws-->": "1 number bound to ws, which has 3",
    "(8, 64)<!--=d-->": "2 numbers bound to d, which has 1",
    "0.73800600<!--=w-->": "it shows more digits than are known",
    # wrong sign
    "−0.738<!--=w-->": "−0.738 is bound to w, which is 0.738006 (cell 0): the sign is wrong",
    "-0.738<!--=w-->": "the sign is wrong",
    "$-0.738$<!--=w-->": "the sign is wrong",
    "0.5<!--=neg-->": "the sign is wrong",
    "$0.5$<!--=neg-->": "the sign is wrong",
    "1 − 0.5<!--=neg-->": "the sign is wrong",
    "$x - 0.5$<!--=neg-->": "the sign is wrong",
    "–0.5<!--=neg-->": "reads as a minus: write −",
    # wrong suffix
    "524.3B<!--=big-->": "524.3B is bound to big, which is 524,288,000 (cell 0): the digits agree",
    "524.3k<!--=big-->": "Correct its unit or exponent.",
    "524.3 billion<!--=big-->": "Correct its unit or exponent.",
    "16 KiB<!--=table-->": "Correct its unit or exponent.",
    "16.00 MB<!--=table-->": "Correct its unit or exponent.",
    "73.8<!--=w-->": "73.8 is bound to w",
    "0.738 %<!--=w-->": "Correct its unit or exponent.",
    "$0.738\\%$<!--=w-->": "Correct its unit or exponent.",
    "$16\\,\\text{GiB}$<!--=table-->": "Correct its unit or exponent.",
    # wrong exponent
    "2.7 × 10⁻⁷<!--=tiny-->": "10⁻⁷ is bound to tiny, which is 2.67596e-08 (cell 0): the digits",
    "2.7 × 10⁸<!--=tiny-->": "Correct its unit or exponent.",
    "2.7e-7<!--=tiny-->": "Correct its unit or exponent.",
    "$2.7\\times 10^{-7}$<!--=tiny-->": "Correct its unit or exponent.",
    "$2.7\\cdot 10^{8}$<!--=tiny-->": "Correct its unit or exponent.",
    # names and keys
    "0.738<!--=v-->": "No cell of the chapter prints v.",
    "60 million<!--@krizhevski2012-->": "no krizhevski2012. Do you mean krizhevsky2012?",
    "[Vaswani](sources.md#vaswani2018)": "has no vaswani2018. Do you mean vaswani2017?",
    "0.738<!-- =w-->": "<!-- =w-->: write <!--=name--> for a fact, <!--@key--> for a source.",
    "0.738<!--=w b-->": "write <!--=name-->",
    # comments that bind nothing
    "<!--=w-->": "<!--=w--> binds nothing: it must stand directly behind a number and its unit.",
    "word<!--=w-->": "binds nothing",
    "0.738 <!--=w-->": "binds nothing",
    "`0.738`<!--=w-->": "binds nothing",
    "[0.738](x.md)<!--=w-->": "binds nothing",
    "GPT-2<!--=w-->": "binds nothing",
    "### 0.738<!--=w-->": "binds nothing",
    "12 heads<!--=d-->": "<!--=d--> binds nothing: move it directly behind 12.",
    "0.738<!--=w--><!--=w-->": "binds nothing",
    "million<!--@vaswani2017-->": "binds nothing",
    # split by markup
    "150,**528**<!--=n-->": "150,528 is split by markup",
    "**150**,528<!--=n-->": "150,528 is split by markup",
    "1<b>50,528</b><!--=n-->": "150,528 is split by markup",
    "150<!-- x -->,528<!--=n-->": "150,528 is split by markup",
    "150<!--=n-->,528": "150,528 is split by markup",
    "7.5<!--=share--> %": "7.5 % is split by markup",
    "**7.5** %<!--=share-->": "7.5 % is split by markup",
    "−**0.5**<!--=neg-->": "−0.5 is split by markup",
    "2.7<!--=tiny--> × 10⁻⁸": "2.7 × 10⁻⁸ is split by markup",
    "10<sup>8</sup>": "10^8 is split by markup",
    "$7.5$<!--=share--> %": "$7.5$ is part of a number",
    "~$150{,}000$<!--=n-->": "$150{,}000$ is part of a number",
    "$150$,528<!--=n-->": "$150$ is part of a number",
    "$9{9}$": "9{9} puts a number behind a number",
    # thousands
    "1,50,528<!--=n-->": "1,50,528 is no number: write thousands in groups of three, with commas,",
    "1505,28<!--=n-->": "is no number",
    "150 528<!--=n-->": "150 528 is no number",
    "15 0,528": "0,528 is no number",
    "150_528<!--=n-->": "is no number",
    "150.528.000": "is no number",
    "$1{,}50{,}528$<!--=n-->": "is no number",
    "$150,528$<!--=n-->": "150,528 reads as several numbers in math: write {,}",
    "$150\\,528$<!--=n-->": "puts a number behind a number",
    "0,738<!--=w-->": "is no number",
    "10⁹⁹⁹⁹": "10⁹⁹⁹⁹ is too large or too small to be checked",
    # powers
    "2¹⁰": "2 is raised to a power: write that in math",
    "64^2": "64 is raised to a power",
    "n<sup>2</sup> and 64<sup>2</sup>": "64 is raised to a power",
    "$2^10$": "^10 reaches one digit only: put the number in braces",
    "$\\sqrt64$": "\\sqrt64 reaches one digit only",
    # identities
    "$3\\cdot 64 = 193$": "3\\cdot 64 = 193 does not hold: 3\\cdot 64 is 192. Correct",
    "$3\\cdot 64 \\approx 200$": "3\\cdot 64 ≈ 200 does not hold",
    "$3\\cdot 64 = 192 = 193$": "does not hold",
    "$n = 3\\cdot 64 = d = 193$": "3\\cdot 64 = 193 does not hold",
    "$3\\cdot 3\\cdot 3\\cdot 64 + 64 = 1{,}793$": "is 1,792. Correct",
    "$0.84^{100} \\approx 2.7\\times 10^{-7}$": "0.84^{100} is 2.67873e-8. Correct",
    "$\\frac{1}{\\sqrt{d_k}} = \\frac{1}{\\sqrt{64}} = 0.126$": "does not hold",
    "$\\sqrt 2 = 1$": "\\sqrt {2} is 1.41421. Correct",
    "$7/2 = 4$": "7/2 is 3.5. Correct",
    "$\\tfrac12 = \\tfrac24 + 1$": "\\tfrac{1}{2} is 0.5 and \\tfrac{2}{4} + 1 is 1.5. Correct",
    "$(n = 3\\cdot 64 = 193)$": "does not hold",
    "$0.738 \\approx 0.75$": "0.738 ≈ 0.75 does not hold.",
}

UNBOUND = r"""
    13 | 99 | −13 | 12.0 | 0.84 | .84 | (0.84) | 1e-5 | 7B | 5 % | 5 million | 4 KiB | 10⁸ | 10^8
    n=99 | n≈99 | top-99 | 99-wide | 12–99 | 1/99 | 99× | 99ms | 12x224 | ~99 | **99** | *99*
    ~~99~~ | <b>99</b> | <p>99</p> | <svg><text>99</text></svg> | &#57;9 | 9&#57; | ９９
    > 99 | - 99 | 1. 99 | in 2048 | in 2048 tokens | in 2000 steps | In 2017 steps | in 99
    Only 1984 remain | x. At 1984 | with 1,984 of | a 99M GPT | Numpy 200 | (9.2) | 2,017 papers
    $0.84$ | $99$ | $d_k = 64$ | $2^{10}$ | $10^{8}$ | $x = 0.5, y = 2$ | $99x$ | $s^{99}$
    $0.739 = 0.739$ | $\sigma(0) = 0.5$ | $e = 0.5$ | $2\tfrac12 = 2.5$ | $1/2\pi = 0.16$
    $\mathbb{R}^{64}$ | $\begin{pmatrix} 99 \\ 0 \end{pmatrix}$ | $\underbrace{x}_{99}$
    $\text{99}$ | $\mathrm{99}$ | $\mathbf{99}$ | $$0.84$$ | a $$0.84$$ b
"""
UNBOUND = [text.strip() for line in UNBOUND.strip().splitlines() for text in line.split(" | ")] + [
    "    99",
    "\t99",
    "99\n---",
    "| a |\n|---|\n| 99 |",
    "| 99 |\n|---|\n| a |",
    "a[^1]\n\n[^1]: 99",
    "a[^1]\n\n[^1]:\n    99",
    "<details><summary>99</summary>\n\na\n\n</details>",
    "<details><summary>a</summary>\n\n99\n\n</details>",
    "$$\n0.84\n$$",
    "\\begin{align}\nx = 99\n\\end{align}",
]

NOT_PLAIN = {
    "{cite}`vaswani2017`": "The role {cite}",
    "```{note}\nx\n```": "The directive {note}",
    ":::{note}\nx\n:::": ":::{note}",
    "> [!NOTE]\n> x": "[!NOTE]",
    "(target)=\n": "A MyST target",
    "% words": "A MyST comment",
    "$$x$$ (label)": "A label behind a formula",
}


@pytest.mark.parametrize("text", WRONG_NUMBERS)
def test_a_wrong_number_is_reported_with_its_line(text):
    found = planted(text)
    assert any(line == 4 and WRONG_NUMBERS[text] in message for line, message in found), found


@pytest.mark.parametrize("text", UNBOUND)
def test_a_number_without_a_source_is_reported_with_its_line(text):
    found = planted(f"\n{text}")
    row = next(
        row for row, line in enumerate(text.split("\n")) if re.search(r"\d{2}|\.\d|[4579]", line)
    )
    lines = {line for line, message in found if "has no source" in message}
    assert lines == {5 + row}, found


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_only_the_site_reads_is_reported_with_its_line(text):
    line, message = planted(f"\n{text}")[0]
    assert line == 5
    assert message.startswith(f"{NOT_PLAIN[text]}: the site alone would read it.")


def test_a_fault_says_file_line_literal_fact_and_what_to_do():
    text = "# Title\n\nIt is 0.739<!--=w-->.\n"
    (fault,) = check_chapter(text, notebook_for(text), set(), "chapters/09_attention.md")
    assert str(fault) == (
        "chapters/09_attention.md:3: 0.739 is bound to w, which is 0.738006 (cell 0). "
        "Write 0.738, or change the cell."
    )


def test_an_unbound_number_is_told_which_facts_it_agrees_with():
    (fault,) = planted("About 0.74, that is 0.738<!--=w-->.")
    assert fault[1].endswith("It agrees with w.")


def test_lines_are_counted_through_code_comments_formulas_and_links():
    text = (
        "`code over\nlines` <!-- a comment\nover lines --> $x\n= y$ [a link\nover lines](x.md)\n"
        "![a picture\nover lines](x.png) **bold\nover lines** a<br\n/>96\n\n"
        "$$\nx \\\\\n= 99\n$$\n98 and\n97"
    )
    assert [line for line, _ in faults(text)] == [9, 13, 15, 16]


def test_an_unused_fact_is_reported_where_it_is_printed():
    text = "# Title\n\n```{code-cell}\nx = 1\nfacts(\n    w=x,\n    d=64)\n```\n\n64<!--=d-->\n"
    notebook = {"cells": [cell("set-up"), cell("facts(w=x)", "w = 0.738006\nd = 64\n")]}
    assert faults(text, notebook) == [
        (6, "w = 0.738006 is printed (cell 1) and never used: bind a number to it with <!--=w-->, "
            "or do not print it as a fact.")
    ]  # fmt: skip


def test_a_fact_named_in_code_is_not_used():
    notebook = {"cells": [cell("facts(w=x)", "w = 0.738006\n")]}
    for text in ("`0.738<!--=w-->`", "```\n0.738<!--=w-->\n```"):
        assert "never used" in " ".join(message for _, message in faults(text, notebook))


def test_a_name_printed_twice_is_reported_at_the_second_cell():
    text = "0.738<!--=w-->\n\n```{code-cell}\nfacts(w=1)\n```\n\n```{code-cell}\nfacts(w=1)\n```\n"
    notebook = {"cells": [cell("facts(w=1)", "w = 0.738006"), cell("facts(w=1)", "w = 0.738006")]}
    assert faults(text, notebook) == [
        (8, "w is printed twice (cells 0 and 1): give the second another name.")
    ]


def test_alternative_texts_and_captions():
    text = "12,000<!--=big_n-->, 0.25<!--=old-->, 0.738<!--=w-->\n\n" + "".join(
        "```{code-cell}\n:mystnb: {image: {alt: …}}\ny\n```\n\n" for _ in range(3)
    )
    text = text.replace("y\n", "alt: the tallest is 0.74, not 0.25 of 12,000 or 0.99\n", 3)

    def notebook(key, alt):
        part, name = key
        return {
            "cells": [
                cell("facts(…)", "big_n = 12,000\nold = 0.25"),
                cell("facts(…)", "w = 0.738006"),
                cell("plot", mystnb={part: {name: alt}}),
            ]
        }

    for key in (("image", "alt"), ("figure", "caption")):
        assert faults(text, notebook(key, "Five bars of 12,000; the tallest is 0.74.")) == []
        for wrong in ("0.99", "0.25", "12,001", "12 000"):
            ((line, message),) = faults(text, notebook(key, f"The tallest is {wrong}."))
            assert message.startswith(f"{wrong}, in an alternative text or caption, is no fact")
            assert line == (15 if wrong in ("0.99", "0.25") else 13)


def test_the_alternative_text_of_a_markdown_image():
    assert planted("0.738<!--=w--> ![The tallest is 0.74 of 3](x.png)") == []
    ((line, message),) = planted("0.738<!--=w-->\n![The tallest\nis **0.75**](x.png)")
    assert (line, message[:4]) == (6, "0.75")


# ------------------------------------------------------------------------------------ no faults

BOUND = r"""
    0.738<!--=w-->, 0.74<!--=w--> 0.7<!--=w--> 1<!--=w--> ~0.7<!--=w--> .738<!--=w-->
    $0.738$<!--=w--> **0.738**<!--=w-->, *the 0.738*<!--=w--> <b>0.738</b><!--=w--> (0.738<!--=w-->)
    73.8 %<!--=w--> 73.8%<!--=w--> 74 percent<!--=w--> $73.8\,\%$<!--=w--> $73.8\%$<!--=w-->
    150,528<!--=n--> 150528<!--=n--> $150{,}528$<!--=n--> $n = 150528$<!--=n--> 150,528.0<!--=n-->
    ~150,000<!--=n--> $\sim 150{,}000$<!--=n--> 151k<!--=n--> 0.15M<!--=n--> 1.505 × 10⁵<!--=n-->
    524.3M<!--=big--> 524.3 million<!--=big--> 0.5243B<!--=big-->
    500 MiB<!--=big--> 524.3 MB<!--=big-->
    16 MiB<!--=table--> 16.00MiB<!--=table--> 16,384 KiB<!--=table--> 16.8 MFLOPs<!--=table-->
    $16\,\text{MiB}$<!--=table--> $16\ \mathrm{MiB}$<!--=table--> $4096^2$<!--=table-->
    ~84,000×<!--=ratio--> 84,001×<!--=ratio--> 84k<!--=ratio--> $84{,}001\times$<!--=ratio-->
    2.7 × 10⁻⁸<!--=tiny--> 2.676 · 10⁻⁸<!--=tiny--> 2.7e-8<!--=tiny--> 2.7 × 10^-8<!--=tiny-->
    $2.7\times 10^{-8}$<!--=tiny--> $2.7\cdot10^{-8}$<!--=tiny-->
    $p \approx 3\times10^{-8}$<!--=tiny-->
    −0.5<!--=neg--> -0.5<!--=neg--> $-0.5$<!--=neg--> $z = -0.5$<!--=neg--> (−0.5<!--=neg-->)
    (0.037, 0.738, 0.165)<!--=ws--> [0.04, 0.74, 0.16]<!--=ws-->
    $a = [0.037, 0.738, 0.165]$<!--=ws--> $(0.037,\ 0.738,\ 0.165)$<!--=ws-->
    $\left(8, 64, 512\right)$<!--=widths--> (8; 64; 512)<!--=widths-->
    $\begin{pmatrix} 8 & 64 & 512 \end{pmatrix}$<!--=widths-->
    $\begin{bmatrix}8\\64\\512\end{bmatrix}$<!--=widths-->
    64<!--=d-->-wide, 64<!--=d-->–150,528<!--=n-->, 64<!--=d-->×64<!--=d-->, 64<!--=d--> heads
    $d_k = 64$<!--=d--> $\mathbb{R}^{64 \times n}$<!--=d--> $64^{-2i/d}$<!--=d-->
    $e^{64}$<!--=d--> $8^2$<!--=d-->
    60 million<!--@krizhevsky2012--> $60$<!--@vaswani2017--> [Vaswani](sources.md#vaswani2017)
""".strip().splitlines()

COMPUTED = r"""
    $3\cdot 3\cdot 3\cdot 64 + 64 = 1{,}792$ and $0.84^{100} \approx 2.7\times 10^{-8}$
    $\sqrt{d_k} = \sqrt{64} = 8$ $\frac{1}{\sqrt{d_k}} = \frac{1}{\sqrt{64}} = 0.125$
    $\sqrt 4 = 2$ $\sqrt[3]{27} = 3$
    $\lfloor 2\cdot 4\cdot 4096/3 \rfloor = 10{,}922$ $\lceil 7/2 \rceil = 4$
    $\ln 5 = 1.609$ $\log_2 1024 = 10$ $\log(20) \approx 3.0$
    $e^{0.5} = 1.649$ $\exp(-1.6) = 0.2019$ $\pi \approx 3.14$
    $\tanh(0.5) = 0.462$ $\cos(2\pi/3) = -0.5$ $\sin 1 \approx 0.84$
    $2 \times (3 + 4) = 14$ $2(3+4) = 14$ $(-2)^2 = 4$ $-2^2 = -4$
    $\tfrac12 + \frac13 = \dfrac{5}{6}$ $\left(\frac{1}{2}\right)^{3} = 0.125$
    $10^3 = 1{,}000$ $12/64 = 18.75\,\%$ $1.5\cdot10^3 = 3\cdot 500$
    $2048^2\cdot 4\ \text{bytes} = 16\,\text{MiB}$ $4\ \text{heads}\cdot 16 = 64$
    $\underbrace{12\cdot 768^2}_{W_1}\cdot 12 = 84{,}934{,}656$ $20 \sqrt 4 = 40$
    $a = 8 \cdot 8 = 64$, $n = 8\cdot 64 = d = 512$, $(b = 5\cdot 5 = 25)$
    $x = 2\cdot 9 = 18 \text{ and } y = 1$, so $3\cdot 5 = 15$.
    $\frac{e^{0.5}}{e^{0.5}+e^{1.0}} = \frac{1.649}{1.649+2.718} = 0.378$
    $768\cdot 0.02^2 = 0.307$
""".strip().splitlines()

FREE = r"""
    Integers 0, 1, 12, −12, (3), 4× and 2x, ~5 of 12, 3×3, 2-layer, 5/8, 10–12, 7 B, 5 − 3 = 2.
    Names: ResNet-50, GPT-2, GPT-2-XL, fp16, bf16, int8, float32, Llama-3-8B, Llama-3.1-405B, H100.
    More: Qwen2.5-72B, CIFAR-10, all-MiniLM-L6-v2, W1, x64, E29, VGG-16, T5, word2vec, "B200".
    Python 3.11, PyTorch 2.13.0, torch ≥ 2.4, CUDA 12.8, Llama 3.1 and version 1.25.
    Vaswani et al. 2017, (Vaswani et al., 2017), Bahdanau (2014), (Elman 1990), at NeurIPS 2017.
    (Cho et al., 2014; Sutskever, 2014), in 2017, since 2014, between 1997 and 2014. In 2017, all.
    Section 3.2, sections 13 and 14, §3.2, chapter 18, chapters 13, 14 and 20, Figure 9.13, page 35.
    Equation (9.13) and (9.2), from $a = b \tag{9.2}$. The 3rd, 25th and 101st step, issue #57109.
    arXiv:1706.03762, https://arxiv.org/abs/1706.03762 and <https://arxiv.org/abs/1706.03762>.
    `150 528`, `x = 0.739`, ``a ` 99``, <code>0.739</code>, <kbd>99</kbd>, <!-- 99 --> twelve dozen.
    [99 things](09_attention.ipynb#part-99 "99"), <a href="x99.html">99</a>, <b title="99">x</b>
    $4 d^2$, $8nd^2$, $n = 2d$, $2 \times 2$, $n^2$, $1/\sqrt{d_k}$, $[0, 1]$, $[0, 1)$, $x_{t-1}$
    $W_Q \in \mathbb{R}^{d \times d}$, $(B, n, d)$, $W_{12}$, $x_{512}$, $-\infty$, $(1, \tfrac12)$
    $O(n^2 d)$, $\sum_{i=1}^{n} x_i^2$, $h^{(2)}$, $a_{ij}$, $\sigma^2 = 1$, $2\pi$, $\text{GPT-2}$
    $\begin{pmatrix}1&0\\0&-1\end{pmatrix}$, $\hspace{24pt} x$, $[\,k_j = q\,]\; v_j .$, $f(0) = 1$
""".strip().splitlines()

FREE_BLOCKS = [
    "## A heading with 99 and 0.739, $0.84$ and [99](x.md)",
    "13. first\n14. second",
    "a[^99]\n\n[^99]: A note.",
    "```python\nx = 0.739\n```",
    "~~~\n0.739\n~~~",
    "```{code-cell}\n:tags: [hide-input]\n\nx = 0.739\n```",
    '+++ {"slide": 99}',
    '<details class="c99"><summary>**2.** What?</summary>\n\nAnswer 3.\n\n</details>',
    '<svg width="99"><rect x="99"/></svg>',
    "<table><tr><td>64<!--=d--></td><td>64<!--=d--></td></tr></table>",
    "$$\n3\\cdot 64 = 192 % not 193\n$$",
    "<style>\n.x { width: 99px }\n</style>",
    "$$\nn = 2d \\tag{9.12}\n$$",
    "$$\n\\begin{aligned}\nn &= 8\\cdot 64 \\\\[4pt]\n  &= 512\n\\end{aligned}\n$$",
    "| step | shape |\n|---:|---|\n| 1 | $(n, d)$ |",
    "| a | b |\n|---|---|\n| 0.738<!--=w--> | $0.738$<!--=w--> |\n| **0.74**<!--=w--> | 2 |",
    "> **Note.** So it is 0.738<!--=w-->.",
    "- so it is\n  0.738<!--=w-->\n\n  and 0.74<!--=w-->",
    "a[^1]\n\n[^1]: It is 0.738<!--=w-->.",
    "<details><summary>64<!--=d--> of them</summary>\n\n0.738<!--=w-->\n\n</details>",
    "$$\na = 64\n$$\n<!--=d-->",
    "$$a = 64$$<!--=d-->",
    "$$\na = (8,\\ 64,\\ 512)\n$$\n<!--=widths-->",
]


@pytest.mark.parametrize("text", [line.strip() for line in BOUND + COMPUTED + FREE] + FREE_BLOCKS)
def test_no_false_alarm(text):
    assert planted(f"\n{text}") == []


def test_front_matter_is_not_read():
    assert faults("---\nlumen:\n  seconds: 99\n---\n\n# Title\n") == []


# ------------------------------------------------------------------------------------ properties

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, " KiB": 1024, " %": Decimal("0.01"), "×": 1}


@given(
    value=st.floats(1e-12, 99999).map(lambda x: f"{x:.6g}")
    | st.integers(1, 10**13).map("{:,}".format),
    minus=st.sampled_from(["", "−", "-"]),
    digits=st.integers(1, 4),
    form=st.sampled_from([*SUFFIXES, "power", "math", "math power", "e"]),
)
def test_a_value_is_accepted_to_any_digit_and_its_neighbour_refused(value, minus, digits, form):
    exact = Decimal(value.replace(",", ""))
    scaled = exact / SUFFIXES.get(form, 1)
    power = scaled.adjusted() if form in ("power", "math power", "e") else 0
    unit = Decimal(1).scaleb(min(0, scaled.adjusted() - power - digits + 1))
    known = Decimal(1).scaleb(exact.adjusted() - 5) if "." in value else 0
    assume(unit.scaleb(power) * SUFFIXES.get(form, 1) >= known)
    near = (scaled.scaleb(-power) / unit).to_integral_value() * unit
    off = near + (unit if near * Decimal(1).scaleb(power) >= scaled else -unit)

    def written(number):
        plain = f"{number:,f}"
        tex = plain.replace(",", "{,}")
        sign = "-" if minus and form.startswith("math") else minus
        return sign + {
            "power": f"{plain} × 10{str(power).translate(RAISED)}",
            "math": tex,
            "math power": f"{tex}\\times 10^{{{power}}}",
            "e": f"{plain}e{power}",
        }.get(form, plain + form)

    def found(number):
        dollar = "$" if form.startswith("math") else ""
        text = f"{dollar}{written(number)}{dollar}<!--=x-->"
        return faults(text, {"cells": [cell("facts(…)", f"x = {'-' * bool(minus)}{value}")]})

    assert found(near) == []
    if off >= 0:
        assert [line for line, message in found(off) if "is bound to x" in message] == [1]


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(lambda n: (str(n), Fraction(n))),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} + {p[1][0]})", p[0][1] + p[1][1])),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} - {p[1][0]})", p[0][1] - p[1][1])),
        st.tuples(inner, inner).map(lambda p: (rf"{p[0][0]} \cdot {p[1][0]}", p[0][1] * p[1][1])),
        inner.map(lambda p: (rf"\frac{{{p[0]}}}{{7}}", p[1] / 7)),
        inner.map(lambda p: (rf"\left({p[0]}\right)^{{2}}", p[1] ** 2)),
        inner.map(lambda p: (f"(-{{{p[0]}}})", -p[1])),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_identities_are_computed_exactly(expression):
    tex, value = expression
    right = rf"{value.numerator:,}/{value.denominator:,}".replace(",", "{,}")
    wrong = rf"{value.numerator + 1:,}/{value.denominator:,}".replace(",", "{,}")
    assert faults(f"$1 \\cdot {tex} = {right}$") == []
    assert "does not hold" in " ".join(
        message for _, message in faults(f"$1 \\cdot {tex} = {wrong}$")
    )


# ------------------------------------------------------------------------------------ library


def test_read_facts(tmp_path):
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": "facts(w=1)", "metadata": {}},
            cell("print('a = 1')", "a = 1\n"),
            cell(
                ["x = 1\n", "facts(n=1)"],
                ["n = 150,528\n", "w = 0.738006\ntext = words\nws = (1.5, -2)\n"],
            ),
            cell("measured(loss=1)", "loss = 1.20\n"),
        ]
    }
    notebook["cells"][2]["outputs"].append(
        {"output_type": "stream", "name": "stderr", "text": "b = 1\n"}
    )
    facts = read_facts(notebook)
    assert {name: (fact.text, fact.value, fact.cell) for name, fact in facts.items()} == {
        "n": ("150,528", Decimal(150528), 2),
        "w": ("0.738006", Decimal("0.738006"), 2),
        "ws": ("(1.5, -2)", (Decimal("1.5"), Decimal(-2)), 2),
        "loss": ("1.20", Decimal("1.20"), 3),
    }
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(notebook))
    assert read_facts(path) == facts


def test_what_is_measured_is_known_as_far_as_it_is_printed():
    notebook = {"cells": [cell("measured(loss=1)", "loss = 1.20\n")]}
    assert faults("1.2<!--=loss--> and 1.20<!--=loss-->", notebook) == []
    ((_, message),) = faults("1.200<!--=loss-->", notebook)
    assert "more digits than are known" in message


@pytest.mark.parametrize(
    ("text", "literal"),
    {
        "there are 150,528": "150,528",
        "about ~84,000×": "~84,000×",
        "only 7.5 %": "7.5 %",
        "is −0.5": "−0.5",
        "from 64–512": "512",
        "524.3M": "524.3M",
        "some 60 million": "60 million",
        "2.7 × 10⁻⁸": "2.7 × 10⁻⁸",
        "weights (0.037, 0.738)": "(0.037, 0.738)",
        "f(0.738)": None,
        "GPT-2": None,
        "150,528 ": None,
        "150,528 tokens": None,
        "": None,
    }.items(),
)
def test_trailing_literal(text, literal):
    span = trailing_literal(text)
    assert (text[slice(*span)] if span else None) == literal


# ------------------------------------------------------------------------------------ command


@pytest.fixture
def chapter(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "references.bib").write_text("@article{vaswani2017, title = {Attention}}\n")
    path = tmp_path / "chapters" / "09_x.md"

    def write(text, with_notebook=True):
        path.write_text(text)
        if with_notebook:
            path.with_suffix(".ipynb").write_text(json.dumps(notebook_for(text)))
        return str(path)

    return write


def test_the_command_passes_a_clean_chapter(chapter, capsys):
    path = chapter("0.738<!--=w-->, $3\\cdot 5 = 15$, 13<!--@vaswani2017-->\n\n0.74<!--=w-->\n")
    assert main([path, "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  w = 0.738006  (cell 0)  lines 1, 3",
        "09_x.md: 2 bound, 1 evaluated, 1 cited, 0 faults",
    ]


def test_the_command_fails_on_a_fault(chapter, capsys):
    path = chapter("# Title\n\n0.739<!--=w-->\n")
    assert main([path]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:3: 0.739 is bound to w")
    assert last == "09_x.md: 1 bound, 0 evaluated, 0 cited, 1 faults"


def test_the_command_fails_without_a_notebook(chapter, capsys):
    path = chapter("# Title\n", with_notebook=False)
    assert main([path]) == 1
    assert capsys.readouterr().out == (
        f"{path}:1: there is no 09_x.ipynb beside it. Run make notebooks.\n"
    )


@pytest.mark.parametrize("name", ["09_x.ipynb", "09_y.md"])
def test_the_command_fails_on_what_is_no_text(chapter, capsys, name):
    path = Path(chapter("# Title\n")).with_name(name)
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}: wanted a text that is there and ends in .md\n"


# ------------------------------------------------------------------- pages without cells

W, N, WS = (f"<!--=chapters/09_x:{name}-->" for name in ("w", "n", "ws"))


@pytest.fixture
def page(chapter, tmp_path):
    chapter("".join(f"<!--={name}-->" for name in PRINTED))

    def found(text):
        faults = check_page(text, all_facts(tmp_path), KEYS, "intro.md")
        return [(fault.line, fault.message) for fault in faults]

    return found


@pytest.mark.parametrize(
    "text",
    [
        f"150,528{N} or **0.74{W}** or $0.738${W} or (0.037, 0.74, 0.165){WS}",
        "60 million<!--@krizhevsky2012--> and twelve and 12 and $3\\cdot 50 = 150$",
        "```{lumen-map}\nlegend: 150\n```\n\n(target)=\n\n## 150",
    ],
)
def test_a_page_quotes_what_chapters_print(page, text):
    assert page(f"# Title\n\n{text}\n") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"0.739{W}", "0.739 is bound to w, which is 0.738006 (cell 0). Write 0.738"),
        (f"0.738{WS}", "1 number bound to ws, which has 3"),
        ("150,528", "150,528 has no source: bind it to a fact with <!--=chapters/NN_slug:name-->"),
        ("0.738<!--=w-->", "<!--=w-->: write <!--=chapters/NN_slug:name--> for a fact"),
        ("0.738<!--=chapters/09_x:v-->", "No chapter prints chapters/09_x:v. Do you mean"),
        ("0.738<!--=chapters/08_x:w-->", "No chapter prints chapters/08_x:w."),
        ("13<!--@nobody1900-->", "references.bib has no nobody1900."),
        ("13<!--@chapters/09_x:vaswani2017-->", "write <!--=chapters/NN_slug:name-->"),
        (f"a word {W}", "binds nothing"),
    ],
)
def test_a_page_that_misquotes_is_reported_with_its_line(page, text, said):
    ((line, message),) = page(f"# Title\n\n{text}\n")
    assert line == 3 and said in message


def test_a_chapter_does_not_quote_other_chapters():
    ((_, message),) = faults(f"0.738{W}")
    assert f"{W}: write <!--=name--> for a fact" in message


def test_the_command_reads_pages_with_the_chapters_beside_them(chapter, tmp_path, capsys):
    chapter("<!--=w-->")
    front, inner = tmp_path / "intro.md", tmp_path / "chapters" / "errata.md"
    front.write_text(f"0.738{W} and 13<!--@vaswani2017-->\n")
    inner.write_text(f"0.739{W}\n")
    assert pages(tmp_path) == [front, inner]
    assert main([str(front), "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  chapters/09_x:w = 0.738006  (cell 0)  lines 1",
        "intro.md: 1 bound, 0 evaluated, 1 cited, 0 faults",
    ]
    assert main([str(inner)]) == 1
    assert "errata.md:1: 0.739 is bound to w" in capsys.readouterr().out


def test_misquoted(page, tmp_path):
    quoted = all_facts(tmp_path)
    w, ws = quoted["chapters/09_x:w"], quoted["chapters/09_x:ws"]
    assert misquoted("it is 0.738", False, w) is None
    assert misquoted("0.738", True, w) is None
    assert misquoted("(0.037, 0.74, 0.165)", False, ws) is None
    assert misquoted("no number", False, w) is None
    assert "Write 0.738" in misquoted("it is 0.739", False, w)
    assert "Write 0.738" in misquoted("0.739", True, w)


def test_a_long_chapter_takes_little_time():
    line = (
        "It is 0.738<!--=w-->, **73.8 %**<!--=w-->, $(0.037,\\ 0.738,\\ 0.165)$<!--=ws--> or `x`,\n"
    )
    text = (
        line + "$3\\cdot 64 = 192$ in 2017 with GPT-2 and more words to fill the line.\n\n"
    ) * 400
    assert len(text) > 60_000
    start = time.perf_counter()
    assert faults(text) == []
    assert time.perf_counter() - start < 5


# ------------------------------------------------------------------------------------ the book


def check_text(path, text):
    notebook = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    return check_chapter(text, notebook, read_keys(ROOT / "references.bib"), path.name)


def test_there_are_chapters_and_pages():
    assert CHAPTERS
    assert {"intro", "errata", "glossary", "notation"} <= {path.stem for path in PAGES}


@pytest.fixture(scope="module")
def book():
    return all_facts(ROOT), read_keys(ROOT / "references.bib")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_number_of_the_page_has_its_source(path, book):
    found = check_page(path.read_text(encoding="utf-8"), *book, path.name)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_one_wrong_digit_anywhere_on_the_page_is_found(path, book):
    text = path.read_text(encoding="utf-8")
    quote = r"<!--=[\w/]+:(\w+)-->"
    moved = re.sub(rf"(\d)([^\d<\n]*{quote})", lambda m: f"{(int(m[1]) + 5) % 10}{m[2]}", text)
    found = check_page(moved, *book, path.name)
    refused = {(fault.line, name) for fault in found for name in re.findall(r"\w+", fault.message)}
    for number, line in enumerate(moved.splitlines(), 1):
        for name in re.findall(quote, line):
            assert (number, name) in refused


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_number_of_the_chapter_has_its_source(path):
    found = check_text(path, path.read_text(encoding="utf-8"))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_one_wrong_digit_anywhere_in_the_chapter_is_found(path):
    """Every bound number's last digit is moved by five, all at once: each must be refused."""

    def moved(match):
        return f"{(int(match[1]) + 5) % 10}{match[2]}"

    text = re.sub(
        r"(\d)([^\d<\n]*(?:\n|</?\w+>)?<!--=\w+-->)", moved, path.read_text(encoding="utf-8")
    )
    refused = {
        (fault.line, name)
        for fault in check_text(path, text)
        for name in re.findall(r"\w+", fault.message)
    }
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"<!--=(\w+)-->", line):
            assert (number, name) in refused
