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
    """Convert a mapping of a class that PyTorch itself traverses to a dict. Any other value is returned unchanged.

    Other mappings are not converted, because reading an item may load it from a file.
    """
    kind = type(value)
    return by_key(value) if kind in CONTAINERS and kind is not dict else value


def here(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this process holds, detached. Only a sharded tensor (DTensor) has parts in other
    processes.
    """
    own = tensor.detach()
    return own if type(own) is Tensor else getattr(own, "_local_tensor", own)


def copied(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor, without communication between processes.

    ``clone()`` of a ``DTensor`` adds up partial sums, which requires all processes; if only one process has a probe, it
    would wait forever. A conversion to the same dtype keeps partial sums and the history.
    """
    if not is_distributed(tensor):
        return tensor.clone()
    return tensor.to(tensor.dtype, copy=True) if tensor.requires_grad else _here_alone(torch.clone, tensor)


def combined(operation: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor) -> Tensor | None:
    """Return a sum or difference, computed without communication between processes; None if that is impossible."""
    if not (is_distributed(one) or is_distributed(other)):
        return operation(one, other)
    if not _lie_alike(one, other):
        return None
    has_history = one.requires_grad or other.requires_grad
    return operation(one, other) if has_history else _here_alone(operation, one, other)


def is_distributed(tensor: Tensor) -> bool:
    """Is the tensor a ``DTensor``? Then this process may hold only a part of it."""
    return type(tensor) not in ORDINARY and hasattr(tensor, "_local_tensor")


def _lie_alike(one: Any, other: Any) -> bool:
    # Do the processes hold matching parts of both tensors that can be added part by part? Partial maxima cannot.
    if not (is_distributed(one) and is_distributed(other)) or one.placements != other.placements:
        return False
    return one.device_mesh == other.device_mesh and all(
        getattr(each, "reduce_op", "sum") in ("sum", "avg") for each in one.placements
    )


def _here_alone(operation: Callable[..., Tensor], *tensors: Any) -> Tensor:
    # Apply an operation to the parts in this process, and wrap the result like the first tensor.
    first = tensors[0].detach()
    own = {}
    for name in (found := first.__tensor_flatten__())[0]:
        parts = [getattr(one, name) for one in tensors]
        is_part = isinstance(parts[0], Tensor)  # newer releases pass the device mesh as another argument
        own[name] = operation(*[part.detach() for part in parts]) if is_part else parts[0]
    made: Tensor = type(first).__tensor_unflatten__(own, found[1], first.shape, first.stride())
    return made


def held(tensor: Tensor) -> Tensor:
    """Return the numbers that a tensor stores in this process, without the zeros that a sparse tensor omits."""
    values = _unpacked(tensor)
    if values.layout is torch.sparse_coo:
        return values._values()
    if values.layout in COMPRESSED or values.is_nested:
        return values.values()
    return values if values.layout is torch.strided else values.to_dense()


def dense(tensor: Tensor) -> Tensor:
    """Return all numbers of the part of a tensor in this process."""
    values = _unpacked(tensor)
    if values.is_nested:
        return values.values()
    return values if values.layout is torch.strided else values.to_dense()


def _unpacked(tensor: Tensor) -> Tensor:
    # Return the numbers of a tensor. If the tensor's class stores integers instead, the numbers are decoded.
    own = here(tensor)
    is_packed = own.is_quantized or type(own).dequantize is not Tensor.dequantize
    return own.dequantize() if is_packed else own


def wide(values: Tensor) -> Tensor:
    """Return the numbers in double precision.

    Raises NotImplementedError for dtypes with two numbers in one byte, or with bits that are not numbers.
    """
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


ORDINARY: frozenset[type] = frozenset({Tensor, torch.nn.Parameter})
"""Plain tensor types. Subclasses may change what operations do."""


def is_plain(value: Any) -> bool:
    """Is this an ordinary dense tensor with numbers? Reading other tensors may fail, or involve other processes."""
    return type(value) in ORDINARY and value.layout is torch.strided and not (value.is_meta or value.is_nested)


def is_there(tensor: Tensor) -> bool:
    """Does the tensor's storage contain all bytes of the tensor? True for tensors that are not strided.

    A program may free them (``resize_(0)``), and reading them would crash.
    """
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta or not tensor.numel():
        return True
    part = getattr(tensor, "_local_tensor", None)
    if part is not None:
        return is_there(part)
    try:
        return tensor.untyped_storage().nbytes() >= _end(tensor)
    except (RuntimeError, NotImplementedError):  # the tensor has no storage of its own
        return True


def grad_of(tensor: Tensor) -> Tensor | None:
    """Return the ``.grad`` of a tensor. None for a computed tensor that does not retain its gradient, because PyTorch
    would warn.
    """
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def is_zero(tensor: Tensor) -> bool:
    """Is the tensor known to be 0 everywhere? False if it is not an ordinary dense tensor, for example because several
    processes hold parts of it, or if a mode would observe the check.
    """
    if not is_plain(tensor):
        return False
    if own_modes.dispatch_modes() > own_modes.count or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    try:
        with DisableTorchFunction():
            return tensor.untyped_storage().nbytes() > 0 and not bool(tensor.any())
    except (RuntimeError, NotImplementedError):  # a dtype without this operation, or a tensor inside ``vmap``
        return False


def floating(result: Any) -> list[Tensor]:
    """Return the floating-point and complex tensors in a value."""
    return [leaf for _, leaf in leaves(result) if isinstance(leaf, Tensor) and is_floating(leaf)]


def is_floating(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def describe(tensor: Tensor) -> Description:
    """Return the shape (None for a nested tensor, which has no single shape), the dtype without ``torch.``, and the
    device.

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
    """The position of a view within its base's memory."""

    base_size: tuple[int, ...]
    base_stride: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # in elements, from the base's first element

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
        """Return the part of the base's gradient that belongs to the view."""
        return self._laid_out(base_grad).as_strided(self.size, self.stride, self.offset)

    def carry(self, base_grad: Tensor, to: Geometry) -> Tensor:
        """Return the part of the base's gradient that belongs to this view, in the layout of another view. Elements
        that only the other view has are 0.
        """
        only = torch.zeros_like(self._laid_out(base_grad))
        only.as_strided(self.size, self.stride, self.offset).copy_(self.restrict(base_grad))
        return only.as_strided(to.size, to.stride, to.offset).clone()

    def _laid_out(self, base_grad: Tensor) -> Tensor:
        laid = base_grad.new_empty_strided(self.base_size, self.base_stride)
        return laid.copy_(base_grad)


def same_content(a: Tensor, b: Tensor) -> bool:
    """Do the tensors hold equal numbers? NaN counts as equal to NaN. The numbers of tensors that are not dense are not
    compared.
    """
    if a.dtype != b.dtype or a.shape != b.shape or a.layout is not torch.strided:
        return a.dtype == b.dtype and a.shape == b.shape
    if is_floating(a):
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return torch.equal(a, b)


def numbers(tensor: Tensor) -> Any:
    """Return the numbers as a NumPy array in double precision; None if they cannot be read."""
    if not is_there(tensor) or tensor.is_meta or tensor.is_nested:
        return None
    try:
        return wide(dense(tensor)).resolve_conj().resolve_neg().cpu().numpy()
    except NotImplementedError:
        return None


def sample(tensor: Tensor, most: int) -> Any:
    """Return at most ``most`` of the numbers, evenly spaced, without copying the others. None if the tensor is sparse
    or nested, or cannot be read.
    """
    if not is_there(tensor) or tensor.is_nested or tensor.layout is not torch.strided:
        return None
    values = here(tensor)
    at = torch.arange(0, values.numel(), stride(values.numel(), most), device=values.device)
    return numbers(values[torch.unravel_index(at, values.shape)].reshape(-1))


def to_text(tensor: Tensor) -> str:
    """Return all numbers of a small tensor as text, with six significant digits; a remark if it has no numbers, or
    PyTorch cannot read them.
    """
    if tensor.is_meta:
        return "(meta: no values)"
    try:
        return nested_text(dense(tensor).resolve_conj().resolve_neg().cpu().tolist())
    except RuntimeError:  # PyTorch cannot convert the numbers either
        return f"({describe(tensor).dtype}: not shown)"


# saving: dense bytes for each storage, and layouts as plain data

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
ALIGNED = 16  # bytes: a multiple of the size of every dtype


@dataclass(frozen=True, eq=False)
class Memory:
    """One storage, with the recorded tensors in it and their layouts. The object keeps the storage alive."""

    storage: torch.UntypedStorage
    device: torch.device
    users: list[tuple[Tensor, dict[str, Any]]] = field(default_factory=list)

    def bytes(self) -> Any:
        """Return the bytes from the first to the last one that the tensors use, with up to 15 bytes before them. If all
        tensors have one layout and use only a small part of these bytes, return that part alone. The layouts are
        adjusted to the returned bytes.
        """
        users = [(tensor, layout) for tensor, layout in self.users if tensor.numel()]
        ranges = [_covered(tensor) for tensor, _ in users]
        first = min((first for first, _ in ranges), default=0) // ALIGNED * ALIGNED
        last = max((last for _, last in ranges), default=0)
        distinct = {(t.dtype, tuple(t.shape), t.stride(), t.storage_offset()) for t, _ in users}
        if len(distinct) == 1 and last - first > max(4 * users[0][0].nbytes, 4096):
            alone = users[0][0].contiguous()  # for example a column of a large matrix: save the column alone
            for _, layout in users:
                layout["stride"], layout["offset"] = list(alone.stride()), 0
            return _flat(alone.untyped_storage(), self.device).cpu().numpy()
        for tensor, layout in self.users:
            layout["offset"] = max(layout["offset"] - first // tensor.element_size(), 0)
        return _flat(self.storage, self.device)[first:last].cpu().numpy()


def _covered(tensor: Tensor) -> tuple[int, int]:
    # Return the range of bytes that a tensor uses in its storage: the first byte, and the one after the last.
    first = int(tensor.storage_offset())
    last = first + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True))
    return first * tensor.element_size(), (last + 1) * tensor.element_size()


def _end(tensor: Tensor) -> int:
    # Return the position after the last byte that a tensor uses in its storage.
    if tensor.is_contiguous():  # true for most tensors, and faster than summing over dimensions
        return (int(tensor.storage_offset()) + tensor.numel()) * tensor.element_size()
    return _covered(tensor)[1]


def _flat(storage: torch.UntypedStorage, device: torch.device) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)


def encode(tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    """Describe a tensor as plain data, and add its memory to ``blobs``. Tensors that share memory add it once.

    Raises NotSaved for a meta, quantized or nested tensor, and for one in a special layout, such as that of MKL-DNN.
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
    """Return the tensor that ``encode`` described, on the CPU. Tensors that shared memory share memory again. Raises
    ValueError for an unknown dtype or layout, or one that does not fit the memory.
    """
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
    with warnings.catch_warnings():  # PyTorch warns that compressed layouts are new
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_compressed_tensor(
            parts["compressed"], parts["plain"], parts["values"], shape, layout=kind, check_invariants=True
        )


def is_partial(tensor: Tensor) -> bool:
    """Does each process hold a partial sum that has not been added up yet? Only a ``DTensor`` can be partial."""
    return any(one.is_partial() for one in getattr(tensor, "placements", ()))


def is_replicated(tensor: Tensor) -> bool:
    """Does each process hold the whole tensor? False for a tensor that is not a ``DTensor``."""
    placements = getattr(tensor, "placements", ())
    return bool(placements) and all(one.is_replicate() for one in placements)
