"""Lumen: the layers of neural networks, written to be read and proven against torch.nn.

Each module holds one idea; import from it by name, as in ``from lumen.attention import attention``.
This file imports nothing, so ``lumen.count`` works without torch.
"""

__version__ = "0.1.0"
