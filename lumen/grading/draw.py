"""What the cases of a question are made of: draws that only the seed decides."""

import torch


class Draw:
    """Seeded draws that no global state can change: not the generator, the dtype or the device."""

    def __init__(self, seed: int):
        self.generator = torch.Generator("cpu").manual_seed(seed)

    def normal(self, *shape: int, dtype=torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, dtype=dtype, device="cpu")

    def between(self, low: int, high: int) -> int:
        draw = torch.randint(low, high + 1, (), generator=self.generator, device="cpu")
        return draw.item()

    def mask(self, *shape: int) -> torch.Tensor:
        """True in about half of the places, and in one of each row at least."""
        draws = torch.rand(shape, generator=self.generator, dtype=torch.float32, device="cpu")
        return (draws < 0.5) | (draws == draws.amin(-1, keepdim=True))


def both(first: str, second: str) -> str:
    """The hint for two mistakes at once."""
    return f"{first} And one thing more. {second}"
