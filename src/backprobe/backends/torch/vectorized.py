"""Per-sample gradients in PyTorch: ``torch.func.vmap`` of ``torch.func.grad``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

from backprobe.backends.vectorized import Gradients, SampleProgram, Vectorized


class TorchVectorized(Vectorized):
    """Implements ``Vectorized`` for PyTorch."""

    title = "torch.func.vmap"

    def gradients(self, program: SampleProgram, samples: Sequence[Tensor]) -> tuple[Tensor, Gradients]:
        def loss(shifts: dict[str, Tensor], *sample: Tensor) -> tuple[Tensor, Tensor]:
            found = program.loss([one[None] for one in sample], shifts).reshape(())
            return found, found

        shifts = {name: torch.zeros_like(value) for name, value in program.shifted.items()}
        every = vmap(grad(loss, has_aux=True), in_dims=(None, *[0] * len(samples)), randomness="different")
        # ``no_grad``, because outside of ``grad`` parameters that require a gradient would create a second graph
        with torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop because", UserWarning)
            gradients, losses = every(shifts, *samples)
        return losses, gradients

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def tensor(self, value: Any) -> Tensor:
        return torch.as_tensor(value).detach()

    def stacked(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack([*tensors])

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([*tensors])

    def chosen(self, tensor: Tensor, at: Sequence[int]) -> Tensor:
        return tensor[torch.tensor([*at], dtype=torch.long, device=tensor.device)]

    def norms(self, gradients: Tensor) -> Any:
        rows = gradients.reshape(len(gradients), -1)
        return torch.linalg.vector_norm(rows, dim=1, dtype=_wide(rows)).double().numpy(force=True)

    def dots(self, gradients: Tensor, other: Tensor) -> Any:
        rows, kind = gradients.reshape(len(gradients), -1), _wide(gradients)
        return (rows.to(kind) @ other.reshape(-1).to(kind).conj()).real.double().numpy(force=True)

    def summed(self, gradients: Tensor, weights: Any) -> Tensor:
        at = weights.nonzero()[0]
        rows = gradients if len(at) == len(gradients) else self.chosen(gradients, at)
        factors = torch.as_tensor(weights[at]).to(rows.device, rows.dtype)
        summed: Tensor = torch.tensordot(factors, rows, dims=1)
        return summed

    def scaled(self, gradients: Tensor, weights: Any) -> Tensor:
        factors = torch.as_tensor(weights).to(gradients.device, gradients.dtype)
        return torch.mul(gradients, factors.reshape(-1, *[1] * (gradients.dim() - 1)))

    def mark(self, tensor: Tensor) -> Any:
        return id(tensor), tensor.data_ptr(), tensor._version

    def free_memory(self, like: Tensor) -> int | None:
        return torch.cuda.mem_get_info(like.device)[0] if like.is_cuda else None


def _wide(tensor: Tensor) -> torch.dtype:
    # Return a dtype that is precise enough for summation.
    return torch.promote_types(tensor.dtype, torch.float32)
