"""Starting weights: small enough that depth does not add up.

Each layer draws its own weights when it is made, as torch does. What is
here goes over a whole model afterwards, because how small a write has to be
depends on how many there are.
"""

import math

from torch import nn

STD = 0.02
WRITERS = (["attn", "out"], ["mlp", "proj"], ["mlp", "w_down"])


def gpt2_init_(model: nn.Module, n_layers: int) -> nn.Module:
    """Draw the weights of a model as GPT-2 does, and hand it back.

    ``W ~ N(0, 0.02²)``, ``b = 0``, and for what writes to the residual
    stream ``W ~ N(0, 0.02² / (2 · n_layers))``

    L blocks write 2 L times: attention and MLP once each. The variances of
    independent writes add up, to 2 L σ². With a standard deviation smaller
    by √(2 L) they come to σ² at any depth.

    The writers are known by their names: ``attn.out``, ``mlp.proj`` and,
    in SwiGLU, ``mlp.w_down``. What has a matrix named ``weight`` is drawn:
    dense layers, embeddings, learned positions. Norms stay as they are, and
    so do convolutions, recurrences and parameters without a layer.

    Args:
        model: the model, changed in place. A tensor with two names is drawn
            once, and as a writer's if one of them is a writer's.
        n_layers: blocks L in the model.

    Raises:
        ValueError: n_layers is below 1.

    Differs from:
        GPT-2's published code, which draws positions with 0.01 and does not
        scale the writers; the paper says that it does.

    Source:
        Radford, Wu, Child, Luan, Amodei and Sutskever (2019), Language
        Models are Unsupervised Multitask Learners, section 2.3.

    Example:
        >>> import torch
        >>> from lumen.dense import Linear
        >>> layer = gpt2_init_(Linear(512, 512), n_layers=12)
        >>> round(layer.weight.std().item(), 3), layer.bias.abs().max().item()
        (0.02, 0.0)
    """
    if n_layers < 1:
        raise ValueError(f"gpt2_init_ wants n_layers ≥ 1, got {n_layers}")
    stds = {}
    for name, layer in model.named_modules(remove_duplicate=False):
        weight = getattr(layer, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.ndim != 2:
            continue
        writes = name.split(".")[-2:] in WRITERS
        std = STD / math.sqrt(2 * n_layers) if writes else STD
        stds[weight] = min(std, stds.get(weight, std))
        if getattr(layer, "bias", None) is not None:
            nn.init.zeros_(layer.bias)
    for weight, std in stds.items():
        nn.init.normal_(weight, std=std)
    return model
