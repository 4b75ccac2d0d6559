"""What layers cost: weights, FLOPs and bytes, in whole numbers.

Nothing here needs torch: the formulas stand on their own, and ``count``
reads whatever has ``named_parameters``.
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
from lumen.count.conv import conv_flops, conv_params, receptive_field
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
from lumen.count.models import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
)
from lumen.count.table import Row, Table, count

__all__ = [
    "linear_params",
    "linear_flops",
    "conv_params",
    "conv_flops",
    "receptive_field",
    "embedding_params",
    "norm_params",
    "norm_flops",
    "recurrent_params",
    "recurrent_flops",
    "batch_norm_flops",
    "attention_params",
    "projection_flops",
    "mixing_flops",
    "attention_flops",
    "mlp_params",
    "mlp_flops",
    "block_params",
    "block_flops",
    "score_bytes",
    "kv_cache_bytes",
    "DecoderConfig",
    "EncoderConfig",
    "EncoderDecoderConfig",
    "Row",
    "Table",
    "count",
]
