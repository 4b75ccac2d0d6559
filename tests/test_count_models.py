"""Configurations and MODELS, against the classes of transformers and nets built from torch.nn."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from lumen.count import (
    MODELS,
    DecoderConfig,
    EncoderDecoderConfig,
    Models,
    Row,
    attention_params,
    block_params,
    count,
    embedding_params,
    linear_params,
    mlp_params,
    norm_params,
)

BIBLIOGRAPHY = Path(__file__).resolve().parents[1] / "references.bib"

# ---- every row of MODELS against the class that others run


def bert(d, n_layers, n_heads):
    return "BertModel", {
        "vocab_size": 30_522,
        "hidden_size": d,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
        "intermediate_size": 4 * d,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }


def gpt(kind, vocabulary, n_positions, d, n_layers, n_heads):
    return kind, {
        "vocab_size": vocabulary,
        "n_positions": n_positions,
        "n_embd": d,
        "n_layer": n_layers,
        "n_head": n_heads,
    }


def llama(kind, vocabulary, d, n_layers, n_heads, n_kv_heads, d_ff, tied=False):
    return kind, {
        "vocab_size": vocabulary,
        "hidden_size": d,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "head_dim": d // n_heads,
        "intermediate_size": d_ff,
        "tie_word_embeddings": tied,
    }


def t5(d, n_layers, n_heads, d_ff):
    return "T5ForConditionalGeneration", {
        "vocab_size": 32_128,
        "d_model": d,
        "d_kv": 64,
        "d_ff": d_ff,
        "num_layers": n_layers,
        "num_heads": n_heads,
        "relative_attention_num_buckets": 32,
        "feed_forward_proj": "relu",
    }


def resnet(kind, depths, widths):
    return "ResNetForImageClassification", {
        "layer_type": kind,
        "depths": depths,
        "hidden_sizes": widths,
        "embedding_size": 64,
        "num_labels": 1000,
    }


gpt2 = partial(gpt, "GPT2LMHeadModel", 50_257, 1024)
llama2 = partial(llama, "LlamaForCausalLM", 32_000)
llama3 = partial(llama, "LlamaForCausalLM", 128_256)
BASIC, BOTTLENECK = [64, 128, 256, 512], [256, 512, 1024, 2048]

PUBLISHED = {
    "bert-base": bert(768, 12, 12),
    "bert-large": bert(1024, 24, 16),
    "minilm-l6": bert(384, 6, 12),
    "minilm-l12": bert(384, 12, 12),
    "gpt1": gpt("OpenAIGPTLMHeadModel", 40_478, 512, 768, 12, 12),
    "gpt2": gpt2(768, 12, 12),
    "gpt2-medium": gpt2(1024, 24, 16),
    "gpt2-large": gpt2(1280, 36, 20),
    "gpt2-xl": gpt2(1600, 48, 25),
    "llama-2-7b": llama2(4096, 32, 32, 32, 11_008),
    "llama-2-13b": llama2(5120, 40, 40, 40, 13_824),
    "llama-2-70b": llama2(8192, 80, 64, 8, 28_672),
    "llama-3-8b": llama3(4096, 32, 32, 8, 14_336),
    "llama-3-70b": llama3(8192, 80, 64, 8, 28_672),
    "llama-3.2-1b": llama3(2048, 16, 32, 8, 8192, tied=True),
    "mistral-7b": llama("MistralForCausalLM", 32_000, 4096, 32, 32, 8, 14_336),
    "t5-small": t5(512, 6, 8, 2048),
    "t5-base": t5(768, 12, 12, 3072),
    "t5-large": t5(1024, 24, 16, 4096),
    "resnet-18": resnet("basic", [2, 2, 2, 2], BASIC),
    "resnet-34": resnet("basic", [3, 4, 6, 3], BASIC),
    "resnet-50": resnet("bottleneck", [3, 4, 6, 3], BOTTLENECK),
    "resnet-101": resnet("bottleneck", [3, 4, 23, 3], BOTTLENECK),
}


def theirs(kind, **options):
    """A model of transformers without memory for its weights."""
    import transformers

    model = getattr(transformers, kind)
    with torch.device("meta"):
        return model(model.config_class(**options))


def weights(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_row_weighs_what_the_model_of_transformers_weighs(name):
    kind, options = PUBLISHED[name]
    model = theirs(kind, **options)
    assert MODELS[name].parameters() == weights(model) == count(model).total


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("bert-base", "BertModel", {}),
        ("gpt1", "OpenAIGPTModel", {}),
        ("gpt1", "OpenAIGPTLMHeadModel", {}),
        ("gpt2", "GPT2LMHeadModel", {}),
        ("llama-2-7b", "LlamaForCausalLM", {}),
        ("mistral-7b", "MistralForCausalLM", {}),
        ("t5-small", "T5ForConditionalGeneration", {}),
        ("resnet-50", "ResNetForImageClassification", {"num_labels": 1000}),
    ],
)
def test_a_row_is_what_transformers_takes_for_granted(name, kind, options):
    """No size is given here: the two were written down by different people."""
    assert MODELS[name].parameters() == weights(theirs(kind, **options))


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "resnet" not in name])
def test_heads_which_no_count_shows_are_the_published_ones(name):
    options, config = PUBLISHED[name][1], MODELS[name]
    heads = {"num_attention_heads", "n_head", "num_heads"} & set(options)
    assert config.n_heads == options[heads.pop()]
    if isinstance(config, DecoderConfig):
        wanted = options.get("num_key_value_heads", config.n_heads)
        assert (config.n_kv_heads or config.n_heads) == wanted


def test_no_row_goes_without_its_proof():
    """VGG is not in transformers: tests/test_count_vision.py builds it, and ResNet once more."""
    rest = set(MODELS) - set(PUBLISHED)
    assert set(PUBLISHED) < set(MODELS) and all(name.startswith("vgg-") for name in rest)


# ---- the same numbers, as they are printed elsewhere


def test_the_numbers_of_the_sheet():
    # facts_004, "Extra facts"; numbers.csv EXT-001 to EXT-021; huggingface/transformers#13397,
    # #10221, #18284 (T5); meta-llama/llama#1111; rasbt/LLMs-from-scratch#822;
    # MiniLM-L6-H384, MiniLM-L12-H384; d2l-ai/d2l-en bert-pretraining.md (the first GPT)
    assert {name: config.parameters() for name, config in MODELS.items()} == {
        "bert-base": 109_482_240,
        "bert-large": 335_141_888,
        "minilm-l6": 22_713_216,
        "minilm-l12": 33_360_000,
        "gpt1": 116_534_784,
        "gpt2": 124_439_808,
        "gpt2-medium": 354_823_168,
        "gpt2-large": 774_030_080,
        "gpt2-xl": 1_557_611_200,
        "llama-2-7b": 6_738_415_616,
        "llama-2-13b": 13_015_864_320,
        "llama-2-70b": 68_976_648_192,
        "llama-3-8b": 8_030_261_248,
        "llama-3-70b": 70_553_706_496,
        "llama-3.2-1b": 1_235_814_400,
        "mistral-7b": 7_241_732_096,
        "t5-small": 60_506_624,
        "t5-base": 222_903_552,
        "t5-large": 737_668_096,
        "resnet-18": 11_689_512,
        "resnet-34": 21_797_672,
        "resnet-50": 25_557_032,
        "resnet-101": 44_549_160,
        "vgg-11": 132_863_336,
        "vgg-13": 133_047_848,
        "vgg-16": 138_357_544,
        "vgg-19": 143_667_240,
    }


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("gpt2", 36),
        ("gpt2-medium", 96),
        ("gpt2-large", 180),
        ("gpt2-xl", 300),
        ("llama-2-7b", 512),
        ("llama-2-13b", 800),
        ("llama-2-70b", 320),
        ("llama-3-8b", 128),
        ("llama-3-70b", 320),
        ("mistral-7b", 128),
        ("t5-small", 12),
        ("t5-base", 36),
    ],
)
def test_cache_of_one_token(name, kib):
    # numbers.csv EXT-022 to EXT-033
    config = MODELS[name]
    assert config.kv_cache_bytes(1) == kib * 2**10
    assert config.kv_cache_bytes(8192) == kib * 2**23
    assert config.kv_cache_bytes(100, batch=3, bytes_per_value=1) == 150 * kib * 2**10
    assert config.kv_cache_bytes(0) == 0
    if isinstance(config, EncoderDecoderConfig):  # the same for each token of the source
        assert config.kv_cache_bytes(5, source=7) == config.kv_cache_bytes(12)


def test_a_window_of_4096_tokens_keeps_half_a_gibibyte():
    # facts_004, "Extra facts": the first Mistral
    assert MODELS["mistral-7b"].kv_cache_bytes(4096) == 2**29


def test_an_encoder_keeps_nothing():
    assert not hasattr(MODELS["bert-base"], "kv_cache_bytes")


def test_where_110_million_come_from():
    # google-research/bert#1225, #901, #1164, #656; huggingface/transformers PR#7575;
    # dhlee347/pytorchic-bert#20, which counts everything twice
    config = MODELS["bert-base"]
    rows = {row.name: row.weights for row in config.table().rows}
    embeddings = sum(rows[part] for part in ("tokens", "positions", "types", "embedding norm"))
    blocks = sum(n for part, n in rows.items() if part.startswith("12 × "))
    assert (embeddings, blocks, rows["pooler"]) == (23_837_184, 85_054_464, 590_592)
    assert config.parameters() == 109_482_240
    assert 12 * 768 * 12 == 110_592  # the same digits, and nothing else
    bare = replace(config, pooler=False)
    assert bare.parameters() == 108_891_648
    head = linear_params(768, 768) + norm_params(768) + 30_522  # its matrix is the table
    assert bare.parameters() + head == 109_514_298
    assert bare.parameters() + head == weights(theirs("BertForMaskedLM"))
    assert round(2 * config.parameters(), -7) == 220_000_000


def test_the_large_bert_with_a_tied_head():
    # numbers.csv EXT-004
    bare = replace(MODELS["bert-large"], pooler=False)
    head = linear_params(1024, 1024) + norm_params(1024) + 30_522
    assert bare.parameters() + head == 335_174_458
    assert bare.parameters() + head == weights(theirs("BertForMaskedLM", **bert(1024, 24, 16)[1]))


def test_the_first_gpt():
    # d2l-ai/d2l-en large-pretraining-transformers.md:280
    blocks = 12 * block_params(768, 12)
    assert 40_478 * 768 + 512 * 768 + blocks == MODELS["gpt1"].parameters()
    assert MODELS["gpt1"].table().rows[-1] == Row("head", (40_478, 768), 0, tied_to="tokens")


def test_three_gpt_2s_of_124_million():
    # nanoGPT transformer_sizing.ipynb; rasbt/LLMs-from-scratch ch04; gpt2 of transformers
    real = MODELS["gpt2"]
    assert real.parameters() == 124_439_808
    # norms without offsets weigh what an RMSNorm weighs
    assert replace(real, bias=False, norm="rms").parameters() == 124_337_664
    queries_keys_values = 12 * 3 * 768
    assert real.parameters() - queries_keys_values == 124_412_160
    assert replace(real, tied=False).parameters() - queries_keys_values == 163_009_536


def test_a_model_that_ties_nothing_and_norms_nothing():
    # KellerJordan/modded-nanogpt#26: three numbers a block, and no offset
    block = attention_params(768, 12, bias=False) + 1 + mlp_params(768, bias=False) + 2
    assert 2 * embedding_params(50_304, 768) + 12 * block == 162_201_636


def test_gpt_2_without_its_tables():
    # TransformerLensOrg/TransformerLens#903; speed1313/jax-llm#1, which forgets the embeddings;
    # numbers.csv N065 to N069
    config = MODELS["gpt2"]
    assert config.matrices() == {"projections": 2_359_296, "mlp": 4_718_592}
    assert 12 * sum(config.matrices().values()) == 84_934_656
    assert config.non_embedding_parameters() == 85_056_000
    rows = {row.name: row.weights for row in config.table().rows}
    assert (rows["tokens"], rows["positions"]) == (38_597_376, 786_432)


def test_two_blocks_of_the_medium_gpt_2():
    # microsoft/LoRA#148
    assert 2 * block_params(1024, 16) == 2 * (12 * 1024**2 + 13 * 1024) == 25_192_448


def test_a_small_llama_is_tied():
    # rasbt/LLMs-from-scratch#822
    config = MODELS["llama-3.2-1b"]
    assert config.parameters() == 1_235_814_400
    assert round(replace(config, tied=False).parameters() / 1e9, 2) == 1.5


def test_a_gated_mlp_has_three_matrices():
    # EleutherAI/cookbook#36: Qwen1.5-72B came out at 56.19 billion
    sizes = {"d_ff": 24_576, "positions": "rope", "norm": "rms", "bias": False, "tied": False}
    qwen = DecoderConfig(152_064, 8192, 80, 64, mlp="swiglu", **sizes)
    offsets = 80 * 3 * 8192  # of queries, keys and values
    assert round((qwen.parameters() + offsets) / 1e9, 2) == 72.29
    two = replace(qwen, mlp="gelu")
    assert round(two.parameters() / 1e9, 1) == 56.2


@pytest.mark.parametrize(
    ("name", "multiplier", "multiple"),
    [
        ("llama-2-7b", 1, 256),
        ("llama-2-13b", 1, 256),
        ("llama-2-70b", 1.3, 4096),
        ("llama-3-8b", 1.3, 1024),
        ("llama-3-70b", 1.3, 4096),
        ("llama-3.2-1b", 1.5, 256),
    ],
)
def test_why_11008(name, multiplier, multiple):
    # huggingface/transformers#27139: 8/3 d, cut off, then rounded up to a multiple
    config = MODELS[name]
    d_ff = int(multiplier * int(2 * 4 * config.d_model / 3))
    assert config.d_ff == -(-d_ff // multiple) * multiple


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("bert-base", 1.289017),
        ("bert-large", 1.109779),
        ("gpt2", 1.465124),
        ("gpt2-xl", 1.056323),
        ("llama-2-7b", 1.045940),
        ("llama-2-13b", 1.034408),
        ("llama-2-70b", 1.070658),
        ("llama-3-8b", 1.246461),
        ("llama-3-70b", 1.095138),
    ],
)
def test_twelve_l_d_squared_is_not_the_whole(name, ratio):
    # numbers.csv EXT-034 to EXT-042; errata_004, E76
    config = MODELS[name]
    rule = 12 * config.n_layers * config.d_model**2
    assert config.parameters() / rule == pytest.approx(ratio, abs=5e-7)


def test_t5_has_offsets_of_scores_and_no_others():
    # huggingface/transformers#13397, #10221, #18284
    config = MODELS["t5-base"]
    rows = {row.name: row for row in config.table().rows}
    assert rows["offsets"].weights == 2 * 32 * 12
    none = replace(config, positions="sinusoidal")
    assert config.parameters() - none.parameters() == 2 * 32 * 12
    offsets = 12 * (3 * 4 * 768 + 2 * (3072 + 768))
    assert replace(config, bias=True).parameters() - config.parameters() == offsets


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_original_transformer(norm_first):
    # pytorch/pytorch#24930, #50086, #74092, #51447; hkproj/pytorch-transformer#32: torch puts a
    # norm behind each stack, with post-norm too; discuss.pytorch.org/t/…/167547 (heads)
    config = EncoderDecoderConfig(37_000, 512, 6, 8, norm_first=norm_first)
    with torch.device("meta"):
        torchs = weights(nn.Transformer(batch_first=True))
    assert torchs == 44_140_544
    final = 0 if norm_first else 2 * norm_params(512)
    assert config.non_embedding_parameters() == torchs - final
    assert replace(config, n_heads=1).parameters() == config.parameters()


# ---- the mapping


@pytest.mark.parametrize("name", MODELS)
def test_a_table_sums_up_to_the_weights(name):
    config = MODELS[name]
    table = config.table()
    assert table.total == config.parameters() == sum(row.weights for row in table.rows)
    assert repr(table).splitlines()[-1].split() == ["total", f"{config.parameters():,}"]


def test_every_row_says_where_its_numbers_stand():
    keys = set(re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.M))
    for config in MODELS.values():
        first = re.match(r"[^,;]+", config.source).group()
        assert first in keys or not re.fullmatch(r"[a-z]+\d{4}", first)


def test_models_can_be_read_and_not_written():
    assert len(MODELS) == len(list(MODELS)) == len(set(MODELS)) and "gpt2" in MODELS
    assert "gpt-2" not in MODELS and MODELS.get("gpt-2") is None
    with pytest.raises(TypeError):
        MODELS["gpt2"] = MODELS["gpt2-xl"]
    with pytest.raises(TypeError):
        del MODELS["gpt2"]
    given = {"tiny": MODELS["gpt2"]}
    models = Models(given)
    given.clear()
    assert list(models) == ["tiny"]


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("gpt-2", "gpt2"),
        ("GPT2", "gpt2"),
        ("BERT_base", "bert-base"),
        ("llama3-8b", "llama-3-8b"),
        ("resnet50", "resnet-50"),
        ("vgg16", "vgg-16"),
    ],
)
def test_an_unknown_name_is_told_those_near_it(wrong, near):
    with pytest.raises(KeyError, match=f"MODELS has no '{wrong}'; near it: {near}"):
        MODELS[wrong]


@pytest.mark.parametrize("wrong", ["?", 3, None])
def test_a_name_near_none_is_told_all(wrong):
    with pytest.raises(KeyError) as error:
        MODELS[wrong]
    assert error.value.args == (f"MODELS has no {wrong!r}; it has: {', '.join(MODELS)}",)


def test_models_print_as_a_table():
    lines = repr(MODELS).splitlines()
    assert lines[0] == "bert-base        109,482,240"
    assert [line.split()[0] for line in lines] == list(MODELS)
    assert {len(line) for line in lines} == {len(lines[0])}
    for line, config in zip(lines, MODELS.values(), strict=True):
        assert line.split()[1] == f"{config.parameters():,}"
    assert repr(Models({})) == ""
