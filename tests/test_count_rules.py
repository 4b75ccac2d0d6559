"""The arithmetic of section 15 of the fourth source, and what it leaves unsaid."""

from dataclasses import replace

import pytest

from lumen.count import (
    MODELS,
    DecoderConfig,
    EncoderConfig,
    block_flops,
    block_params,
    crossover,
    flops_per_token,
    kv_cache_bytes,
    linear_flops,
    mixing_flops,
    mlp_flops,
    projection_flops,
    training_flops,
    transformer_params,
)

PLAIN = DecoderConfig(128_000, 4096, 32, 32, positions="none", bias=False)


def test_the_plain_model():
    # facts_004, section 15; numbers.csv S15-005 to S15-011; errata_004, E74
    assert transformer_params(4096, 32, 128_000) == 6_967_263_232
    assert round(transformer_params(4096, 32, 128_000) / 1e9, 2) == 6.97
    assert transformer_params(4096, 32, 128_000, tie_embeddings=False) == 7_491_551_232
    assert transformer_params(4096, 1, 128_000) - 128_000 * 4096 == 201_342_976
    assert PLAIN.parameters() == 6_967_271_424  # with the final norm


@pytest.mark.parametrize(
    ("d", "layers", "vocab", "ffn_mult", "tied"),
    [(16, 1, 10, 4, True), (24, 3, 7, 1, False), (8, 2, 1, 8, True)],
)
def test_what_the_plain_model_leaves_out(d, layers, vocab, ffn_mult, tied):
    config = DecoderConfig(vocab, d, layers, 2, d_ff=ffn_mult * d, n_positions=5, tied=tied)
    plain = transformer_params(d, layers, vocab, ffn_mult, tied)
    bare = replace(config, positions="none", bias=False)
    assert bare.parameters() == plain + 2 * d  # the final norm
    offsets = layers * (4 * d + ffn_mult * d + d)
    assert config.parameters() == plain + 2 * d + offsets + 5 * d


def test_twelve_squares_of_the_width():
    # numbers.csv S15-012, S15-036 to S15-039; errata_004, E76
    def rule(layers, d):
        norms = layers * 4 * d
        return transformer_params(d, layers, 1) - norms - d

    assert rule(32, 4096) == 6_442_450_944
    assert rule(40, 5120) == 12_582_912_000
    assert rule(96, 12_288) == 173_946_175_488


def test_shared_keys_shrink_the_matrices_too():
    # errata_004, E75; numbers.csv S15-034
    grouped = replace(PLAIN, n_kv_heads=8)
    assert grouped.matrices()["projections"] == 5 * 4096**2 // 2 == 41_943_040
    assert sum(grouped.matrices().values()) == 21 * 4096**2 // 2


def test_two_flops_for_each_weight_that_multiplies():
    # facts_004, section 15, rule 1; errata_004, E77; numbers.csv S15-015, S15-016
    n = PLAIN.matmul_parameters()
    norms = 65 * 2 * 4096
    assert n == PLAIN.parameters() - norms
    assert flops_per_token(PLAIN, 0) == 2 * n
    untied = replace(PLAIN, tied=False)
    assert untied.parameters() == PLAIN.parameters() + 128_000 * 4096
    assert flops_per_token(untied, 0) == 2 * n  # a row that is looked up is no arithmetic
    attention = [flops_per_token(PLAIN, n) - flops_per_token(PLAIN, 0) for n in (2048, 8192)]
    assert [round(flops / 1e9, 2) for flops in attention] == [1.07, 4.29]


def test_gpt_2_in_flops():
    # numbers.csv N207 to N215 and N220
    gpt2 = MODELS["gpt2"]
    n = gpt2.matmul_parameters()
    assert 2 * n == 247_064_064 == flops_per_token(gpt2, 0)
    core = flops_per_token(gpt2, 1024) - 2 * n
    assert core == 12 * 3_145_728 == 12 * mixing_flops(1, 768, keys=1024)
    blocks = 2 * 12 * sum(gpt2.matrices().values())
    assert blocks == 12 * 14_155_776
    assert core / blocks == pytest.approx(0.222222, abs=1e-6)
    assert core / (2 * n) == pytest.approx(0.152789, abs=1e-6)
    own = 12 * 2 * 768  # half a pair: the sheet's mean is (n + 1) / 2
    causal = flops_per_token(gpt2, 1024, causal=True) - 2 * n + own
    assert causal / blocks == pytest.approx(0.11122, abs=5e-6)
    assert causal / (2 * n) == pytest.approx(0.0764692, abs=5e-8)
    assert training_flops(gpt2, 10**10) == pytest.approx(7.41192e18, rel=1e-6)


def test_the_tokens_of_a_text_add_up():
    config = DecoderConfig(11, 16, 3, 4, n_kv_heads=2, mlp="swiglu", d_ff=20)
    n, size = 9, {"d_ff": 20, "n_kv_heads": 2, "gated": True}
    head = linear_flops(16, 11)
    blocks = 3 * block_flops(n, 16, 4, **size)
    assert n * flops_per_token(config, n) == blocks + n * head
    # the mean of the causal rule is n/2 keys; with each token's own it is (n + 1)/2
    blocks = 3 * block_flops(n, 16, 4, causal=True, **size)
    own = 3 * n * 2 * 16
    assert n * flops_per_token(config, n, causal=True) + own == blocks + n * head


def test_an_encoder_has_no_head():
    config = EncoderConfig(11, 16, 3, 4)
    assert config.matmul_parameters() == 3 * 12 * 16**2
    assert 9 * flops_per_token(config, 9) == 3 * block_flops(9, 16, 4)


def test_training_takes_three_times_the_way_forward():
    # facts_004, section 15, rule 1; numbers.csv N205, N206
    for name in ("gpt2", "bert-base", "llama-3-8b"):
        config = MODELS[name]
        assert training_flops(config, 1000) == 6 * config.matmul_parameters() * 1000
        assert training_flops(config, 10, 512) == 30 * flops_per_token(config, 512)
    causal = training_flops(MODELS["gpt2"], 10, 512, causal=True)
    assert causal == 30 * flops_per_token(MODELS["gpt2"], 512, causal=True)
    assert training_flops(MODELS["gpt2"], 0) == 0
    llama = training_flops(MODELS["llama-3-70b"], 15 * 10**12)
    assert llama == pytest.approx(6.3e24, rel=0.01)


def test_where_attention_catches_up():
    # facts_004, section 15, rule 2; errata_004, E72 and E73; numbers.csv S15-017 to S15-023
    d = 4096
    assert crossover(PLAIN, "projections") == 2 * d == 8192
    assert crossover(PLAIN, "mlp") == 4 * d == 16_384
    assert crossover(PLAIN) == crossover(PLAIN, "block") == 6 * d == 24_576
    assert crossover(PLAIN, causal=True) == 12 * d == 49_152
    assert crossover(PLAIN, "projections", causal=True) == 4 * d
    assert crossover(PLAIN, "mlp", causal=True) == 8 * d
    assert mixing_flops(1, d, keys=2 * d) == projection_flops(1, d, 32)
    assert mixing_flops(1, d, keys=4 * d) == mlp_flops(d)
    # the whole attention sublayer meets the MLP at the difference of the two
    n = crossover(PLAIN, "mlp") - crossover(PLAIN, "projections")
    assert n == 2 * d
    assert mixing_flops(1, d, keys=n) + projection_flops(1, d, 32) == mlp_flops(d)
    share = 4 * 8192 * d / (24 * d**2 + 4 * 8192 * d)
    assert share == 0.25
    assert crossover(MODELS["gpt2"]) == 4608  # numbers.csv N215


@pytest.mark.parametrize("name", ["gpt2", "bert-large", "llama-3-8b", "llama-2-70b"])
@pytest.mark.parametrize("part", ["projections", "mlp", "block"])
def test_a_crossover_is_the_first_context_there(name, part):
    config = MODELS[name]
    n, weights = crossover(config, part), config.matrices()
    wanted = 2 * (sum(weights.values()) if part == "block" else weights[part])
    before, after = (mixing_flops(1, config.d_model, keys=n - i) for i in (1, 0))
    assert before < wanted <= after


def test_a_crossover_is_rounded_up():
    config = DecoderConfig(11, 16, 3, 4, mlp="swiglu", d_ff=7)
    assert config.matrices()["mlp"] == 3 * 16 * 7
    assert crossover(config, "mlp") == 11 and crossover(config, "mlp", causal=True) == 21


def test_where_the_cache_weighs_as_much_as_the_model():
    # errata_004, E73; numbers.csv S15-024 to S15-026
    bytes_of_weights = 2 * transformer_params(4096, 32, 128_000)
    assert bytes_of_weights / PLAIN.kv_cache_bytes(1) == pytest.approx(26_578, abs=0.5)
    assert bytes_of_weights / PLAIN.kv_cache_bytes(1, batch=32) == pytest.approx(830.6, abs=0.05)
    grouped = replace(PLAIN, n_kv_heads=8)
    assert bytes_of_weights / grouped.kv_cache_bytes(1) == pytest.approx(106_312, abs=0.5)


def test_the_cache_of_the_plain_model():
    # facts_004, section 15, rule 3; numbers.csv S15-027 to S15-035
    kib = {n: replace(PLAIN, n_kv_heads=n).kv_cache_bytes(1) // 2**10 for n in (32, 8, 1)}
    assert kib == {32: 512, 8: 128, 1: 16}
    assert PLAIN.kv_cache_bytes(8192) == 4 * 2**30
    assert replace(PLAIN, n_kv_heads=8).kv_cache_bytes(8192) == 2**30
    assert PLAIN.kv_cache_bytes(1, bytes_per_value=1) == 262_144
    same = kv_cache_bytes(7, layers=32, n_kv_heads=32, d_head=128)
    assert PLAIN.kv_cache_bytes(7) == same


# ---- refusals

RULES = [flops_per_token, training_flops]


@pytest.mark.parametrize("config", [MODELS["t5-small"], MODELS["resnet-18"], "gpt2", 7, None])
def test_refuses_what_has_no_one_stack(config):
    given = type(config).__name__
    wanted = f"config wants a DecoderConfig or an EncoderConfig, got {given}"
    for rule in RULES:
        with pytest.raises(ValueError, match=wanted):
            rule(config, 5)
    with pytest.raises(ValueError, match=wanted):
        crossover(config)


def test_refuses_a_causal_encoder():
    wanted = "an encoder reads both ways: it is never causal"
    for rule in RULES:
        with pytest.raises(ValueError, match=wanted):
            rule(MODELS["bert-base"], 5, causal=True)
    with pytest.raises(ValueError, match=wanted):
        crossover(MODELS["bert-base"], causal=True)


@pytest.mark.parametrize("part", ["MLP", "head", None])
def test_refuses_a_part_that_there_is_not(part):
    wanted = rf"part wants one of \['projections', 'mlp', 'block'\], got {part!r}"
    with pytest.raises(ValueError, match=wanted):
        crossover(MODELS["gpt2"], part)


@pytest.mark.parametrize("bad", [-1, 1.5, "3", True])
def test_refuses_tokens_that_are_no_number(bad):
    with pytest.raises(ValueError, match=f"context wants a whole number ≥ 0, got {bad!r}"):
        flops_per_token(MODELS["gpt2"], bad)
    with pytest.raises(ValueError, match=f"tokens wants a whole number ≥ 0, got {bad!r}"):
        training_flops(MODELS["gpt2"], bad)
    with pytest.raises(ValueError, match=f"context wants a whole number ≥ 0, got {bad!r}"):
        training_flops(MODELS["gpt2"], 1, bad)


def test_a_block_of_the_sheet():
    # numbers.csv S15-017
    assert 2 * block_params(4096, 32, bias=False) - 4 * 2 * 4096 == 24 * 4096**2 == 402_653_184
