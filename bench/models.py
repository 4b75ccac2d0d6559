"""Whole models: one that reads, beside another library's, and one that writes, with its cache."""

from functools import partial

import torch

from bench.case import Case, Table, Way
from lumen.count import DecoderConfig
from lumen.decoder import GPT
from lumen.encoder import Bert
from lumen.pretrained import minilm_folder

MODELS = Table()


@MODELS.entry("Bert, as MiniLM", 1.1, trains=False, against="transformers")
def _(larger):
    import transformers

    transformers.logging.disable_progress_bar()
    kinds = Bert, transformers.BertModel
    dtype = torch.get_default_dtype()
    ours, theirs = (kind.from_pretrained(minilm_folder()).to(dtype).eval() for kind in kinds)
    ids = torch.randint(1000, 20000, (8, 128) if larger else (2, 16))
    return Case((ids,), Way(ours), Way(lambda ids: theirs(ids).last_hidden_state))


@MODELS.entry("GPT.generate", by_hand=5, trains=False)
def _(larger):
    d, layers, n = (256, 4, 256) if larger else (64, 2, 32)
    gpt = GPT(DecoderConfig(1000, d, layers, n_heads=4, n_positions=n)).eval()
    cached, anew = (
        Way(partial(gpt.generate, n=n - 1, use_cache=use_cache)) for use_cache in (True, False)
    )
    first = torch.randint(1000, (1, 1))
    said = f"{n} tokens, {layers} blocks of {d}"
    return Case((first,), cached, None, {"no cache, all read again": anew}, said)
