"""Tensors as data: their description, statistics, text, memory layout, and bytes for saving."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.facts import Description
from backprobe.backends.numpy import check_bounds, nested_text
from backprobe.backends.summaries import stride
from backprobe.backends.torch import own_modes
from backprobe.backends.torch.private import CONTAINERS, DisableTorchFunction
from backprobe.errors import NotSaved
from backprobe.record.containers import by_key, leaves


def opened(value: Any) -> Any:
    """A mapping of a class that PyTorch itself takes apart, as a dict; anything else unchanged.

    Other mappings are left alone, because reading an item may load it from a file.
    """
    kind = type(value)
    return by_key(value) if kind in CONTAINERS and kind is not dict else value


def here(tensor: Tensor) -> Tensor:
    """The part of a tensor that lies in this process, detached; for a sharded tensor (DTensor) that is its own part."""
    own = tensor.detach()
    return own if type(own) is Tensor else getattr(own, "_local_tensor", own)


def copied(tensor: Tensor) -> Tensor:
    """A copy that needs no other process.

    ``clone()`` of a ``DTensor`` adds up parts of a sum, for which all processes must take part; if only one has a
    probe, it would wait forever. A conversion to the same dtype keeps the parts as they are, and keeps the history.
    """
    if not is_distributed(tensor):
        return tensor.clone()
    return tensor.to(tensor.dtype, copy=True) if tensor.requires_grad else _here_alone(torch.clone, tensor)


def combined(operation: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor) -> Tensor | None:
    """A sum or difference that needs no other process; None if there is none."""
    if not (is_distributed(one) or is_distributed(other)):
        return operation(one, other)
    if not _lie_alike(one, other):
        return None
    has_history = one.requires_grad or other.requires_grad
    return operation(one, other) if has_history else _here_alone(operation, one, other)


def is_distributed(tensor: Tensor) -> bool:
    """Is it a ``DTensor``, of which a part lies in this process?"""
    return type(tensor) not in ORDINARY and hasattr(tensor, "_local_tensor")


def _lie_alike(one: Any, other: Any) -> bool:
    # Do the processes hold matching parts of both that can be added part by part? Parts of a maximum cannot.
    if not (is_distributed(one) and is_distributed(other)) or one.placements != other.placements:
        return False
    return one.device_mesh == other.device_mesh and all(
        getattr(each, "reduce_op", "sum") in ("sum", "avg") for each in one.placements
    )


def _here_alone(operation: Callable[..., Tensor], *tensors: Any) -> Tensor:
    # Apply an operation to the parts in this process, and wrap the result as the tensors are wrapped.
    first = tensors[0].detach()
    own = {}
    for name in (found := first.__tensor_flatten__())[0]:
        parts = [getattr(one, name) for one in tensors]
        is_part = isinstance(parts[0], Tensor)  # newer releases also list the mesh
        own[name] = operation(*[part.detach() for part in parts]) if is_part else parts[0]
    made: Tensor = type(first).__tensor_unflatten__(own, found[1], first.shape, first.stride())
    return made


def held(tensor: Tensor) -> Tensor:
    """The numbers that it holds here, without the zeros that a sparse one omits."""
    values = _unpacked(tensor)
    if values.layout is torch.sparse_coo:
        return values._values()
    if values.layout in COMPRESSED or values.is_nested:
        return values.values()
    return values if values.layout is torch.strided else values.to_dense()


def dense(tensor: Tensor) -> Tensor:
    """All of its numbers here."""
    values = _unpacked(tensor)
    if values.is_nested:
        return values.values()
    return values if values.layout is torch.strided else values.to_dense()


def _unpacked(tensor: Tensor) -> Tensor:
    # The numbers of a tensor; if it stores integers in their place, as some libraries' classes do, what these stand
    # for.
    own = here(tensor)
    is_packed = own.is_quantized or type(own).dequantize is not Tensor.dequantize
    return own.dequantize() if is_packed else own


def wide(values: Tensor) -> Tensor:
    """In double precision. Raises NotImplementedError for two numbers in one byte, or bits that are not numbers."""
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


ORDINARY: frozenset[type] = frozenset({Tensor, torch.nn.Parameter})
"""Plain tensor types. Other types may define their own behaviour."""


def is_there(tensor: Tensor) -> bool:
    """Does its storage have the bytes that it reaches? A program may free them (``resize_(0)``), and reading would
    crash.
    """
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta or not tensor.numel():
        return True
    part = getattr(tensor, "_local_tensor", None)
    if part is not None:
        return is_there(part)
    try:
        return tensor.untyped_storage().nbytes() >= _end(tensor)
    except (RuntimeError, NotImplementedError):  # a tensor without storage of its own
        return True


def grad_of(tensor: Tensor) -> Tensor | None:
    """Its ``.grad``; None for a result that does not retain it, because PyTorch warns about reading that.

    A module may hold results in place of its parameters, for example after a step that is differentiated.
    """
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def is_zero(tensor: Tensor) -> bool:
    """Is it known to be 0 everywhere? False for parts in several processes, or if a mode would see the check."""
    if type(tensor) not in ORDINARY or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        return False
    if own_modes.dispatch_modes() > own_modes.count or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    try:
        with DisableTorchFunction():
            return tensor.untyped_storage().nbytes() > 0 and not bool(tensor.any())
    except (RuntimeError, NotImplementedError):  # a dtype without that operation, or under vmap
        return False


def floating(result: Any) -> list[Tensor]:
    """The floating-point tensors in a value."""
    return [leaf for _, leaf in leaves(result) if isinstance(leaf, Tensor) and is_floating(leaf)]


def is_floating(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def describe(tensor: Tensor) -> Description:
    """The shape (None for a nested tensor, which has no single one), the dtype without its prefix, and the device.

    >>> describe(torch.zeros(2, 3)).dtype
    'float32'
    """
    shape = None if tensor.is_nested else tuple(tensor.shape)
    return Description(shape, _text(tensor.dtype), _text(tensor.device))


@lru_cache
def _text(kind: torch.dtype | torch.device | torch.layout) -> str:
    return str(kind).removeprefix("torch.")


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
            tuple(base.shape),
            base.stride(),
            tuple(view.shape),
            view.stride(),
            int(view.storage_offset()) - int(base.storage_offset()),
        )

    def restrict(self, base_grad: Tensor) -> Tensor:
        """The part of the base's gradient that falls on the view."""
        return self._laid_out(base_grad).as_strided(self.size, self.stride, self.offset)

    def carry(self, base_grad: Tensor, to: Geometry) -> Tensor:
        """The part of the base's gradient that falls on this view, as another view sees it."""
        only = torch.zeros_like(self._laid_out(base_grad))
        only.as_strided(self.size, self.stride, self.offset).copy_(self.restrict(base_grad))
        return only.as_strided(to.size, to.stride, to.offset).clone()

    def _laid_out(self, base_grad: Tensor) -> Tensor:
        laid = base_grad.new_empty_strided(self.base_size, self.base_stride)
        return laid.copy_(base_grad)


def same_content(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit, with NaN equal to NaN."""
    if a.dtype != b.dtype or a.shape != b.shape or a.layout is not torch.strided:
        return a is b or (a.dtype == b.dtype and a.shape == b.shape)
    if is_floating(a):
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return torch.equal(a, b)


def numbers(tensor: Tensor) -> Any:
    """The numbers as a NumPy array in double precision; None if they cannot be read."""
    if not is_there(tensor) or tensor.is_meta or tensor.is_nested:
        return None
    try:
        return wide(dense(tensor)).resolve_conj().resolve_neg().cpu().numpy()
    except NotImplementedError:
        return None


def sample(tensor: Tensor, most: int) -> Any:
    """At most ``most`` of the numbers, evenly spaced, without copying the others; None for a sparse tensor."""
    if not is_there(tensor) or tensor.is_nested or tensor.layout is not torch.strided:
        return None
    values = here(tensor)
    at = torch.arange(0, values.numel(), stride(values.numel(), most), device=values.device)
    return numbers(values[torch.unravel_index(at, values.shape)].reshape(-1))


def to_text(tensor: Tensor) -> str:
    """A small tensor's numbers in full, to six significant digits."""
    if tensor.is_meta:
        return "(meta: no values)"
    try:
        return nested_text(dense(tensor).resolve_conj().resolve_neg().cpu().tolist())
    except RuntimeError:  # PyTorch itself cannot print them
        return f"({describe(tensor).dtype}: not shown)"


# saving: dense bytes by storage, layout as plain data

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
ALIGNED = 16  # bytes: a multiple of every dtype's size


@dataclass(frozen=True, eq=False)
class Memory:
    """One storage and the tensors of the recording that lie in it, with their layouts. It keeps the storage alive."""

    storage: torch.UntypedStorage
    device: torch.device
    users: list[tuple[Tensor, dict[str, Any]]] = field(default_factory=list)

    def bytes(self) -> Any:
        """The bytes that the tensors cover, and little else. Their layouts are adjusted to these bytes."""
        users = [(tensor, layout) for tensor, layout in self.users if tensor.numel()]
        ranges = [_covered(tensor) for tensor, _ in users]
        first = min((first for first, _ in ranges), default=0) // ALIGNED * ALIGNED
        last = max((last for _, last in ranges), default=0)
        distinct = {(t.dtype, tuple(t.shape), t.stride(), t.storage_offset()) for t, _ in users}
        if len(distinct) == 1 and last - first > max(4 * users[0][0].nbytes, 4096):
            alone = users[0][0].contiguous()  # a column of a large matrix that nothing else needs: save only the column
            for _, layout in users:
                layout["stride"], layout["offset"] = list(alone.stride()), 0
            return _flat(alone.untyped_storage(), self.device).cpu().numpy()
        for tensor, layout in self.users:
            layout["offset"] = max(layout["offset"] - first // tensor.element_size(), 0)
        return _flat(self.storage, self.device)[first:last].cpu().numpy()


def _covered(tensor: Tensor) -> tuple[int, int]:
    # The bytes of its storage that a tensor reaches: the first one, and the one after the last.
    first = int(tensor.storage_offset())
    last = first + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True))
    return first * tensor.element_size(), (last + 1) * tensor.element_size()


def _end(tensor: Tensor) -> int:
    # The end of the bytes of its storage that a tensor reaches.
    if tensor.is_contiguous():  # most are, and then there is nothing to sum
        return (int(tensor.storage_offset()) + tensor.numel()) * tensor.element_size()
    return _covered(tensor)[1]


def _flat(storage: torch.UntypedStorage, device: torch.device) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)


def encode(tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    """Describe a tensor as plain data, and add the memory in which it lies to ``blobs``, once for tensors that share
    it.

    Raises NotSaved for a tensor that has no bytes of its own, or that means more than its numbers.
    """
    tensor = here(tensor)
    dtype = _text(tensor.dtype)
    kind = _not_savable(tensor)
    if kind:
        raise NotSaved(f"a {kind} tensor cannot be saved", asked="rec.save(path)", found=f"a {kind} tensor")
    if tensor.layout is not torch.strided:
        coo = tensor.layout is torch.sparse_coo
        parts = {"indices": tensor._indices(), "values": tensor._values()} if coo else _compressed_parts(tensor)
        encoded: dict[str, Any] = {
            "layout": "coo" if coo else _text(tensor.layout),
            "dtype": dtype,
            "shape": list(tensor.shape),
            "parts": {key: encode(part, blobs, seen) for key, part in parts.items()},
        }
        return encoded | ({"coalesced": tensor.is_coalesced()} if coo else {})
    tensor = tensor.resolve_conj().resolve_neg()
    memory = tensor.untyped_storage()
    key = (memory.data_ptr(), memory.nbytes(), tensor.device)
    if key not in seen:
        seen[key] = f"storage{len(blobs)}"
        blobs[seen[key]] = Memory(memory, tensor.device)
    layout = {
        "layout": "strided",
        "dtype": dtype,
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "storage": seen[key],
    }
    blobs[seen[key]].users.append((tensor, layout))
    return layout


def _not_savable(tensor: Tensor) -> str:
    if tensor.is_meta:
        return "meta"
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_nested:
        return "nested"
    if tensor.layout not in (torch.strided, torch.sparse_coo, *COMPRESSED):
        return _text(tensor.layout).strip("_")
    return ""


def _compressed_parts(tensor: Tensor) -> dict[str, Tensor]:
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return {"compressed": tensor.crow_indices(), "plain": tensor.col_indices(), "values": tensor.values()}
    return {"compressed": tensor.ccol_indices(), "plain": tensor.row_indices(), "values": tensor.values()}


def decode(layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Tensor:
    """The tensor that ``encode`` described, on the CPU. Tensors that shared memory share it again."""
    dtype = getattr(torch, layout["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"a dtype {layout['dtype']!r}")
    shape = layout["shape"]
    if layout["layout"] == "strided":
        check_bounds(layout, len(blobs[layout["storage"]]) // dtype.itemsize)
        memory = torch.from_numpy(blobs[layout["storage"]]).untyped_storage()
        return torch.empty(0, dtype=dtype).set_(memory, layout["offset"], shape, layout["stride"])
    parts = {key: decode(part, blobs) for key, part in layout["parts"].items()}
    if layout["layout"] == "coo":
        return torch.sparse_coo_tensor(
            parts["indices"], parts["values"], shape, is_coalesced=layout["coalesced"] or None, check_invariants=True
        )
    kind = getattr(torch, layout["layout"], None)
    if kind not in COMPRESSED:
        raise ValueError(f"a layout {layout['layout']!r}")
    with warnings.catch_warnings():  # whoever made this tensor knows that compressed layouts are new
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_compressed_tensor(
            parts["compressed"], parts["plain"], parts["values"], shape, layout=kind, check_invariants=True
        )


def is_partial(tensor: Tensor) -> bool:
    """Does each process hold a part of a sum that has not been computed yet? A ``DTensor`` says so."""
    return any(one.is_partial() for one in getattr(tensor, "placements", ()))


def is_replicated(tensor: Tensor) -> bool:
    """Does each process hold all of it? A ``DTensor`` says so."""
    placements = getattr(tensor, "placements", ())
    return bool(placements) and all(one.is_replicate() for one in placements)
