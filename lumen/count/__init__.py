"""What layers and models cost: weights, FLOPs and bytes, in whole numbers.

Nothing here needs torch: the formulas stand on their own, and ``count``
reads whatever has ``named_parameters``. All public names of the modules can
be imported from ``lumen.count``.
"""

from lumen.count.attention import (
    attention_flops,
    attention_params,
    kv_cache_bytes,
    mixing_flops,
    projection_flops,
    score_bytes,
)
from lumen.count.block import (
    block_flops,
    block_params,
    mlp_flops,
    mlp_params,
)
from lumen.count.config import Config, StackConfig, TransformerConfig
from lumen.count.conv import conv_flops, conv_params, receptive_field
from lumen.count.decoder import DecoderConfig
from lumen.count.encoder import EncoderConfig
from lumen.count.layers import (
    batch_norm_flops,
    embedding_params,
    linear_flops,
    linear_params,
    norm_flops,
    norm_params,
    recurrent_flops,
    recurrent_params,
)
from lumen.count.models import MODELS, Models
from lumen.count.rules import (
    crossover,
    flops_per_token,
    training_flops,
    transformer_params,
)
from lumen.count.seq2seq import EncoderDecoderConfig
from lumen.count.table import Row, Table, count
from lumen.count.vision import ResNetConfig, VggConfig

__all__ = [
    "linear_params",
    "linear_flops",
    "embedding_params",
    "norm_params",
    "norm_flops",
    "batch_norm_flops",
    "recurrent_params",
    "recurrent_flops",
    "conv_params",
    "conv_flops",
    "receptive_field",
    "attention_params",
    "projection_flops",
    "mixing_flops",
    "attention_flops",
    "score_bytes",
    "kv_cache_bytes",
    "mlp_params",
    "mlp_flops",
    "block_params",
    "block_flops",
    "Row",
    "Table",
    "count",
    "Config",
    "TransformerConfig",
    "StackConfig",
    "DecoderConfig",
    "EncoderConfig",
    "EncoderDecoderConfig",
    "ResNetConfig",
    "VggConfig",
    "MODELS",
    "Models",
    "transformer_params",
    "flops_per_token",
    "training_flops",
    "crossover",
]
