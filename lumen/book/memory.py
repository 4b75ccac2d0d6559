"""How much memory a computation holds at its worst moment, the same on every machine."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(function, *args, **kwargs):
    """The most bytes of new tensors alive at once while ``function`` runs, its result included.

    Counted at each operation that torch dispatches, so scratch space inside one fused kernel is
    not seen.

    Args:
        function: what to run; called once, without gradients.
        args, kwargs: its arguments. Tensors among them are not counted.

    Example:
        >>> peak_bytes(lambda x: (x + 1) * 2, torch.zeros(1000))
        8000
    """
    ledger = _Ledger(known=[leaf for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)])
    with torch.no_grad(), ledger:
        function(*args, **kwargs)
    return ledger.peak


class _Ledger(TorchDispatchMode):
    def __init__(self, known):
        super().__init__()
        self.alive = {tensor.untyped_storage()._cdata for tensor in known}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if torch.is_tensor(tensor):
                self._enter(tensor.untyped_storage())
        return result

    def _enter(self, storage):
        if storage._cdata in self.alive:
            return
        self.alive.add(storage._cdata)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._leave, storage._cdata, storage.nbytes())

    def _leave(self, name, size):
        self.alive.discard(name)
        self.now -= size
