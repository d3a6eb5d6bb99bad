"""Tensors as data: their description, statistics, text, memory layout, and bytes for saving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.arrays import nested_text
from backprobe.backends.base import Description, Summary


def describe(tensor: Tensor) -> Description:
    """Shape, dtype without its prefix, device.

    >>> describe(torch.zeros(2, 3)).dtype
    'float32'
    """
    return Description(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), str(tensor.device))


@dataclass(frozen=True)
class Geometry:
    """Where a view lies within its base's memory."""

    base_size: tuple[int, ...]
    base_stride: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # from the base's first element

    @classmethod
    def of(cls, view: Tensor, base: Tensor) -> Geometry:
        return cls(
            tuple(base.shape), base.stride(), tuple(view.shape), view.stride(),
            int(view.storage_offset()) - int(base.storage_offset()),
        )  # fmt: skip

    def restrict(self, base_grad: Tensor) -> Tensor:
        """The part of a gradient towards the base that falls on the view."""
        return self._laid_out(base_grad).as_strided(self.size, self.stride, self.offset)

    def carry(self, base_grad: Tensor, to: Geometry) -> Tensor:
        """The part of a gradient towards the base that falls on this view, as another view sees it."""
        only = torch.zeros_like(self._laid_out(base_grad))
        only.as_strided(self.size, self.stride, self.offset).copy_(self.restrict(base_grad))
        return only.as_strided(to.size, to.stride, to.offset).clone()

    def _laid_out(self, base_grad: Tensor) -> Tensor:
        laid = base_grad.new_empty_strided(self.base_size, self.base_stride)
        return laid.copy_(base_grad)


def same_content(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit, NaN counting as equal to NaN."""
    if a.dtype != b.dtype or a.shape != b.shape or a.layout is not torch.strided:
        return a is b or (a.dtype == b.dtype and a.shape == b.shape)
    if a.is_floating_point() or a.is_complex():
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return torch.equal(a, b)


def summarize(tensor: Tensor) -> Summary | None:
    """Size, count of non-finite values, and over the finite ones the rms and largest magnitude; None if not numeric."""
    if tensor.is_meta:
        return None
    values = tensor.detach()
    if values.layout is not torch.strided:
        values = values.to_dense()
    values = values.abs().double() if values.is_complex() else values.double()
    finite = torch.isfinite(values)
    kept = values[finite]
    if not kept.numel():
        return Summary(values.numel(), values.numel(), float("nan"), float("nan"))
    largest = float(kept.abs().max())
    scale = largest or 1.0  # so that squares neither overflow nor vanish
    rms = scale * float((kept / scale).square().mean().sqrt())
    return Summary(values.numel(), values.numel() - kept.numel(), rms, largest)


def to_text(tensor: Tensor) -> str:
    """A small tensor's numbers in full, to six significant digits."""
    values = tensor.detach()
    if values.is_meta:
        return "(meta: no values)"
    if values.layout is not torch.strided:
        values = values.to_dense()
    return nested_text(values.resolve_conj().resolve_neg().cpu().tolist())


# saving: dense bytes by storage, layout as plain data


def encode(tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    """Describe a tensor as plain data, adding the bytes it lies on to ``blobs`` (once where tensors share them)."""
    tensor = tensor.detach()
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce() if tensor.is_coalesced() else tensor
        parts = {"indices": tensor._indices(), "values": tensor._values()}
        encoded = {key: encode(part, blobs, seen) for key, part in parts.items()}
        return {"layout": "coo", "dtype": dtype, "shape": list(tensor.shape), "coalesced": tensor.is_coalesced(),
                "parts": encoded}  # fmt: skip
    if tensor.layout is not torch.strided:
        compressed = _compressed_parts(tensor)
        encoded = {key: encode(part, blobs, seen) for key, part in compressed.items()}
        return {"layout": str(tensor.layout).removeprefix("torch."), "dtype": dtype, "shape": list(tensor.shape),
                "parts": encoded}  # fmt: skip
    tensor = tensor.resolve_conj().resolve_neg()
    memory = tensor.untyped_storage()
    key = (memory._cdata, memory.nbytes())
    dense = tensor.numel() * tensor.element_size()
    if memory.nbytes() > max(4 * dense, 4096) and key not in seen:
        tensor = tensor.clone()  # a small view of a large storage nobody else needs: save only itself
        memory = tensor.untyped_storage()
        key = (memory._cdata, memory.nbytes())
    if key not in seen:
        seen[key] = f"storage{len(blobs)}"
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(memory)
        blobs[seen[key]] = (flat.cpu().numpy(), tensor)  # the tensor keeps the storage, and so its address, alive
    return {"layout": "strided", "dtype": dtype, "shape": list(tensor.shape), "stride": list(tensor.stride()),
            "offset": tensor.storage_offset(), "storage": seen[key]}  # fmt: skip


def _compressed_parts(tensor: Tensor) -> dict[str, Tensor]:
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return {"compressed": tensor.crow_indices(), "plain": tensor.col_indices(), "values": tensor.values()}
    return {"compressed": tensor.ccol_indices(), "plain": tensor.row_indices(), "values": tensor.values()}


def decode(layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Tensor:
    """The tensor that ``encode`` described, on the CPU; tensors that shared memory share it again."""
    dtype = getattr(torch, layout["dtype"])
    shape = layout["shape"]
    if layout["layout"] == "strided":
        memory = torch.from_numpy(blobs[layout["storage"]]).untyped_storage()
        return torch.empty(0, dtype=dtype).set_(memory, layout["offset"], shape, layout["stride"])
    parts = {key: decode(part, blobs) for key, part in layout["parts"].items()}
    if layout["layout"] == "coo":
        return torch.sparse_coo_tensor(
            parts["indices"], parts["values"], shape, is_coalesced=layout["coalesced"] or None
        )
    return torch.sparse_compressed_tensor(
        parts["compressed"], parts["plain"], parts["values"], shape, layout=getattr(torch, layout["layout"])
    )
