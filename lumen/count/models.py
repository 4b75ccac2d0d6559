"""Models that were published, by name: their sizes, and where those stand.

``MODELS["gpt2"]`` is a configuration. It can say what it weighs, and the
model can be built from it.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial

from lumen.count.config import Config
from lumen.count.decoder import DecoderConfig
from lumen.count.encoder import EncoderConfig
from lumen.count.seq2seq import EncoderDecoderConfig
from lumen.count.vision import ResNetConfig, VggConfig


class Models(Mapping):
    """Configurations by name; it prints as a table of their weights.

    Raises:
        KeyError: there is no such name; the message has those near it.

    Example:
        >>> models = Models({"tiny": EncoderConfig(100, 8, 1, 2)})
        >>> models
        tiny  5,872
        >>> models["Tiny"]
        Traceback (most recent call last):
        KeyError: "MODELS has no 'Tiny'; near it: tiny"
    """

    def __init__(self, configurations: Mapping[str, Config]):
        self._configurations = dict(configurations)

    def __getitem__(self, name: str) -> Config:
        if name in self._configurations:
            return self._configurations[name]
        near = get_close_matches(str(name).lower(), self, n=4)
        told = "near it" if near else "it has"
        names = ", ".join(near or self)
        raise KeyError(f"MODELS has no {name!r}; {told}: {names}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._configurations)

    def __len__(self) -> int:
        return len(self._configurations)

    def __repr__(self) -> str:
        weights = {name: f"{self[name].parameters():,}" for name in self}
        a = max(map(len, weights), default=0)
        b = max(map(len, weights.values()), default=0)
        return "\n".join(f"{x:{a}}  {n:>{b}}" for x, n in weights.items())


_bert = partial(EncoderConfig, 30_522, dropout=0.1)
_gpt2 = partial(DecoderConfig, 50_257, dropout=0.1)
_llama = partial(
    DecoderConfig,
    positions="rope",
    norm="rms",
    eps=1e-5,
    mlp="swiglu",
    bias=False,
)
_llama2 = partial(_llama, 32_000, n_positions=4096, tied=False)
_llama3 = partial(_llama, 128_256, n_kv_heads=8, rope_base=5e5)
_t5 = partial(
    EncoderDecoderConfig,
    32_128,
    positions="relative",
    norm="rms",
    bias=False,
    dropout=0.1,
)

_resnet = partial(ResNetConfig, source="he2016, table 1")
_vgg = partial(VggConfig, source="Simonyan and Zisserman 2015, table 1")

MODELS = Models(
    {
        "bert-base": _bert(768, 12, 12, source="devlin2019, its BASE"),
        "bert-large": _bert(1024, 24, 16, source="devlin2019, its LARGE"),
        "minilm-l6": _bert(384, 6, 12, source="all-MiniLM-L6-v2"),
        "minilm-l12": _bert(384, 12, 12, source="MiniLM-L12-H384-uncased"),
        "gpt1": DecoderConfig(
            40_478,
            768,
            12,
            12,
            n_positions=512,
            norm_first=False,
            dropout=0.1,
            source="Radford et al. 2018, section 4.1; openai-gpt",
        ),
        "gpt2": _gpt2(768, 12, 12, source="radford2019, its 124M"),
        "gpt2-medium": _gpt2(1024, 24, 16, source="radford2019, its 355M"),
        "gpt2-large": _gpt2(1280, 36, 20, source="radford2019, its 774M"),
        "gpt2-xl": _gpt2(1600, 48, 25, source="radford2019, its 1558M"),
        "llama-2-7b": _llama2(
            4096,
            32,
            32,
            d_ff=11_008,
            source="touvron2023; Llama-2-7b",
        ),
        "llama-2-13b": _llama2(
            5120,
            40,
            40,
            d_ff=13_824,
            source="touvron2023; Llama-2-13b",
        ),
        "llama-2-70b": _llama2(
            8192,
            80,
            64,
            n_kv_heads=8,
            d_ff=28_672,
            source="touvron2023; Llama-2-70b",
        ),
        "llama-3-8b": _llama3(
            4096,
            32,
            32,
            d_ff=14_336,
            n_positions=8192,
            tied=False,
            source="grattafiori2024; Meta-Llama-3-8B",
        ),
        "llama-3-70b": _llama3(
            8192,
            80,
            64,
            d_ff=28_672,
            n_positions=8192,
            tied=False,
            source="grattafiori2024; Meta-Llama-3-70B",
        ),
        "llama-3.2-1b": _llama3(
            2048,
            16,
            32,
            d_ff=8192,
            n_positions=131_072,
            source="Llama-3.2-1B, but for its stretched rope",
        ),
        "mistral-7b": _llama(
            32_000,
            4096,
            32,
            32,
            n_kv_heads=8,
            d_ff=14_336,
            n_positions=32_768,
            tied=False,
            source="Mistral-7B-v0.1, but for its window of 4,096",
        ),
        "t5-small": _t5(512, 6, 8, source="raffel2020, its Small"),
        "t5-base": _t5(768, 12, 12, source="raffel2020, its Base"),
        "t5-large": _t5(1024, 24, 16, source="raffel2020, its Large"),
        "resnet-18": _resnet((2, 2, 2, 2)),
        "resnet-34": _resnet((3, 4, 6, 3)),
        "resnet-50": _resnet((3, 4, 6, 3), bottleneck=True),
        "resnet-101": _resnet((3, 4, 23, 3), bottleneck=True),
        "vgg-11": _vgg((1, 1, 2, 2, 2)),
        "vgg-13": _vgg((2, 2, 2, 2, 2)),
        "vgg-16": _vgg((2, 2, 3, 3, 3)),
        "vgg-19": _vgg((2, 2, 4, 4, 4)),
    }
)
"""Published models by name.

A source is a key of the bibliography, or the name of the published
``config.json``, or both where the paper leaves numbers open.

:meta hide-value:
"""
