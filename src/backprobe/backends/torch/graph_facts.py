"""Facts about a loss and a tensor from PyTorch's graph alone, without a recording."""

from __future__ import annotations

import torch.utils.checkpoint
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.facts import GraphFacts
from backprobe.backends.torch.capture import gradient_edge
from backprobe.backends.torch.errors import FREED, WRITTEN
from backprobe.backends.torch.graph import edges, key, leaves, nodes
from backprobe.backends.torch.private import WRITTEN_IN_PYTHON
from backprobe.backends.torch.saved_tensors import broken
from backprobe.backends.torch.tensors import describe, is_floating

REENTRANT = torch.utils.checkpoint.CheckpointFunction


def facts(output: Tensor, tensor: Tensor) -> GraphFacts:
    """Return the facts that the graph shows. The caller describes them in words."""
    reached, edge = nodes(output), gradient_edge(tensor)
    return GraphFacts(
        output=_described(output),
        output_requires_grad=output.requires_grad,
        output_size=output.numel(),
        output_is_leaf=output.is_leaf,
        tensor=_described(tensor),
        requires_grad=tensor.requires_grad,
        is_leaf=tensor.is_leaf,
        is_retained=tensor.retains_grad,
        is_inference=tensor.is_inference(),
        is_floating=is_floating(tensor),
        op=tensor.grad_fn.name() if tensor.grad_fn is not None else "",
        is_reached=edge is not None and (output is tensor or key(edge) in edges(output)),
        leaves=tuple(leaves(nodes(tensor))) if edge is not None and not tensor.is_leaf else (),
        output_leaves=tuple(leaves(reached)),
        again=_again(tensor, reached),
        shared=_shared(tensor, reached),
        written=tuple(node.name() for node in reached if list(broken(node, WRITTEN))),
        is_freed=any(list(broken(node, FREED)) for node in reached),
        own=tuple(dict.fromkeys(node.name() for node in reached if isinstance(node, WRITTEN_IN_PYTHON))),
        checkpoints=tuple(node.name() for node in reached if getattr(node, "_forward_cls", None) is REENTRANT),
    )


def _described(tensor: Tensor) -> str:
    known = describe(tensor)
    return f"{known.dtype} of shape {known.shape}"


def _again(tensor: Tensor, reached: list[Node]) -> tuple[str, ...]:
    # For a view outside of the output's graph, return the names of the nodes in that graph that create the same view:
    # from the same input, with the same settings.
    node = tensor.grad_fn
    if node is None or not tensor._is_view() or node in reached:
        return ()
    own = node.name(), node.next_functions, _settings(node)
    return tuple(o.name() for o in reached if o.name() == own[0] and (o.name(), o.next_functions, _settings(o)) == own)


def _settings(node: Node) -> dict[str, str]:
    # Return the arguments of an operation other than tensors, such as positions, dimensions and sizes.
    names = [name for name in dir(node) if name.startswith("_saved_") and not hasattr(node, f"_raw{name}")]
    return {name: repr(getattr(node, name)) for name in names}


def _shared(tensor: Tensor, reached: list[Node]) -> tuple[Tensor, ...]:
    # Return the leaves of a graph whose numbers start at the same address as those of a tensor without a history. The
    # tensor was probably made from such a leaf, by an operation that cut the graph.
    if tensor.grad_fn is not None or tensor.layout is not torch.strided or tensor.is_nested:
        return ()
    place = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return tuple(
        leaf
        for leaf in leaves(reached)
        if leaf is not tensor
        and leaf.layout is torch.strided
        and (leaf.untyped_storage()._cdata, leaf.storage_offset()) == place
    )
