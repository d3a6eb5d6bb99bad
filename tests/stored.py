"""Helpers for saved recordings: recordings to save, and a comparison."""

import warnings

import torch

import backprobe as bp

DATA, BYTES = "recording.json", "storage.safetensors"


def compressed(make):
    """A tensor in one of PyTorch's compressed layouts, which warn that they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return make()


def holding(value):
    """A recording in which the entry ``v`` holds this value."""

    def f(x, make):
        u = x * 2.0
        v = make()
        return u.sum()

    return bp.probe(f)(torch.tensor([1.0, -3.0]), lambda: value)


def toy():
    def f(x, w, b):
        u = x * w
        v = u + b
        return torch.relu(v)

    return bp.probe(f)(3.0, 2.0, 1.0)


def bits(tensor):
    """Everything that makes a tensor what it is, comparable with ==."""
    head = (tensor.dtype, tensor.layout, tuple(tensor.shape))
    if tensor.layout is torch.sparse_coo:
        return (*head, tensor.is_coalesced(), bits(tensor._indices()), bits(tensor._values()))
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return (*head, bits(tensor.crow_indices()), bits(tensor.col_indices()), bits(tensor.values()))
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return (*head, bits(tensor.ccol_indices()), bits(tensor.row_indices()), bits(tensor.values()))
    plain = tensor.detach().resolve_conj().resolve_neg()
    dense = plain.contiguous().reshape(-1)  # not cloned: older releases cannot copy float4
    return (*head, plain.stride(), bytes(dense.view(torch.uint8).numpy()) if dense.numel() else b"")


def same(a, b):
    """Are two held things the same: tensors bit for bit, numbers with their type, lost values with their reason?"""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and bits(a) == bits(b)
    if isinstance(a, float):
        return isinstance(b, float) and a.hex() == b.hex()
    return type(a) is type(b) and a == b


def check_entries(before, after):
    assert list(after) == list(before)
    for name, entry in before.items():
        loaded = after[name]
        assert same(entry.held, loaded.held), name
        assert same(entry.held_grad, loaded.held_grad), name
        for part in ("name", "aliases", "status", "reason", "shape", "dtype", "device", "source", "op"):
            assert getattr(loaded, part) == getattr(entry, part), (name, part)
        assert [edge.name for edge in loaded.inputs] == [edge.name for edge in entry.inputs]


def save_in(path, recording):
    recording.save(path)
    return path


def everything():
    """A recording with every status that the function form has, aliases, notes, versions and a followed function."""
    frozen = torch.tensor([1.0, 2.0])

    def inner(z):
        y = z * 3
        return y

    def f(x, idle, n):
        u = x * 2
        u.mul_(2)
        same = u
        d = u.detach()
        with torch.no_grad():
            q = u + 1
        i = u > 0
        fixed = frozen + 1
        k = inner(u)
        return {"loss": k.sum(), "ünï": "é"}

    return bp.probe(f)(torch.tensor([1.0, 2.0]), torch.tensor(5.0), 3)


def listed(folder):
    return sorted(each.name for each in folder.iterdir())


BIG = torch.arange(10_000.0)
PARTS = torch.tensor([1.5 - 2.5j, -0.0 + 0.0j, float("nan") + 1j])
OF_NEWER = {
    "float8_e8m0fnu": lambda dtype: torch.tensor([1.0, 2.0, 0.5]).to(dtype),
    "float4_e2m1fn_x2": lambda dtype: torch.arange(20, dtype=torch.uint8).view(dtype),
}
"""By dtypes that older releases of PyTorch do not have."""
VALUES = {
    **{name: make(getattr(torch, name)) for name, make in OF_NEWER.items() if hasattr(torch, name)},
    "complex64": PARTS.to(torch.complex64),
    "complex128": PARTS.to(torch.complex128),
    "bfloat16": torch.tensor([1.0, -0.0, float("nan"), float("inf"), 3.14], dtype=torch.bfloat16),
    "float16": torch.tensor([1.0, 6e-8, -float("inf")], dtype=torch.float16),
    "float64": torch.tensor([1e300, 5e-324], dtype=torch.float64),
    "float8_e4m3fn": torch.tensor([1.0, 448.0, float("nan")]).to(torch.float8_e4m3fn),
    "float8_e5m2": torch.tensor([1.0, float("inf"), -3.0]).to(torch.float8_e5m2),
    "bool": torch.tensor([[True], [False]]),
    "int8": torch.tensor([-128, 127], dtype=torch.int8),
    "int64": torch.tensor([-(2**63), 2**63 - 1]),
    "uint16": torch.tensor([65535, 0], dtype=torch.uint16),
    "uint64": torch.tensor([2**63 - 1, 1], dtype=torch.uint64),
    "scalar": torch.tensor(-0.0),
    "empty": torch.empty(0),
    "empty with a shape": torch.empty(1000, 0, 3),
    "empty slice of a large one": BIG[5000:5000],
    "coo": torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 3.0], (4,), check_invariants=True),
    "coo, coalesced": torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 3.0], (4,), check_invariants=True).coalesce(),
    "coo of one value": torch.sparse_coo_tensor([[3], [1]], [1.0], (4, 2), check_invariants=True),
    "coo, hybrid": torch.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2), check_invariants=True),
    "coo without values": torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0), (3,), check_invariants=True),
    "csr": compressed(lambda: torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr()),
    "csc": compressed(lambda: torch.tensor([[0.0, 1.0, 5.0], [2.0, 0.0, 0.0]]).to_sparse_csc()),
    "bsr": compressed(lambda: torch.arange(24.0).reshape(4, 6).to_sparse_bsr((2, 3))),
    "bsc": compressed(lambda: torch.arange(24.0).reshape(4, 6).to_sparse_bsc((2, 3))),
    "csr, batched": compressed(lambda: torch.tensor([[[0.0, 1.0]], [[2.0, 0.0]]]).to_sparse_csr()),
    "csr, of vectors": compressed(lambda: torch.arange(12.0).reshape(2, 3, 2).to_sparse_csr(dense_dim=1)),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "permuted": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "strided slice": torch.arange(30.0)[3::4],
    "expanded": torch.tensor([[2.0]]).expand(300, 300),
    "overlapping": torch.arange(10.0).unfold(0, 4, 2),
    "small view of a large one": BIG[5:7],
    "conj": torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "neg": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "not a number": torch.full((20,), float("nan")),
}
