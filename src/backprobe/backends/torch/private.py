"""Private names of PyTorch that backprobe needs. Each is looked up once, when the backend is imported.

If a name that a capability needs is missing, that capability is refused. If a name that everything needs is missing,
there is no backend. Names of the compiler, which are looked up when a model is watched, are in ``dynamo``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from backprobe.backends.private_names import PrivateNames

NAMES = PrivateNames("torch", "PyTorch", "torch>=2.6,<=2.15")

# Names for transforms, modes and subclasses.

is_wrapped: Any = NAMES.needed("torch._C._functorch.is_functorch_wrapped_tensor")
"""Is the value a tensor inside a transform of ``torch.func``?"""
unwrapped: Any = NAMES.needed("torch._C._functorch.get_unwrapped")
innermost_transform: Any = NAMES.needed("torch._C._functorch.peek_interpreter_stack")
DisableFuncTorch: Any = NAMES.needed("torch._C._DisableFuncTorch")
DisableTorchFunction: Any = NAMES.needed("torch._C.DisableTorchFunction")
disable_current_modes: Any = NAMES.needed("torch.utils._python_dispatch._disable_current_modes")
function_modes: Any = NAMES.needed("torch._C._len_torch_function_stack")
"""Returns the number of modes that observe PyTorch's functions."""
dispatch_modes: Any = NAMES.needed("torch._C._len_torch_dispatch_stack")
"""Returns the number of modes that observe operations."""
dispatch_mode: Any = NAMES.needed("torch._C._get_dispatch_mode")
"""Returns the active mode of one of PyTorch's own kinds: for fake tensors, for removing writes, or for tracing."""
REMOVES_WRITES: Any = NAMES.needed("torch._C._TorchDispatchModeKey.FUNCTIONAL")
TRACES: Any = NAMES.needed("torch._C._TorchDispatchModeKey.PROXY")
CONTAINERS: Any = NAMES.needed("torch.utils._pytree.SUPPORTED_NODES")
"""Classes that PyTorch takes apart to find the tensors in them."""
increment_vmap: Any = NAMES.needed("torch._C._vmapmode_increment_nesting")
decrement_vmap: Any = NAMES.needed("torch._C._vmapmode_decrement_nesting")
remove_batch_dim: Callable[..., torch.Tensor] = NAMES.needed("torch._remove_batch_dim")

# Names for the engine and its graph.

current_pass: Callable[[], int] = NAMES.needed("torch._C._current_graph_task_id")
queue_callback: Any = NAMES.needed("torch.autograd.Variable._execution_engine.queue_callback")
engine_run: Any = NAMES.needed("torch.autograd.Variable._execution_engine.run_backward")
"""Runs a backward pass that no listener observes, without the checks of ``torch.autograd.grad``."""
nodes_made: Any = NAMES.needed("torch.autograd._get_sequence_nr")
"""Returns the engine's count of the nodes that this thread has created so far."""
FUNCTIONS_MADE: Any = NAMES.needed("torch.autograd.function.AUTOGRAD_FUNCTION_COUNTER")
"""PyTorch's count of the custom functions that were defined."""
AccumulateGrad: Any = NAMES.needed("torch._C._functions.AccumulateGrad")
WRITTEN_IN_PYTHON: Any = NAMES.needed("torch._C._FunctionBase")
"""The base class of nodes that are written in Python. Such a node may be freed although an edge to it is still held."""
TensorBase: Any = NAMES.needed("torch._C.TensorBase")
_ = NAMES.needed("torch.autograd._engine_run_backward"), NAMES.needed("torch.nn.utils.stateless._reparametrize_module")

# Names that only a single capability needs.

USELESS, HEARING = ("useless", "useless_in_call"), ("hear_births",)
if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode

    DispatchMode = TorchDispatchMode
else:
    DispatchMode = NAMES.optional(
        "torch.utils._python_dispatch.TorchDispatchMode", *USELESS, *HEARING, "recheck", otherwise=object
    )
push_mode: Any = NAMES.optional("torch.utils._python_dispatch._push_mode", *USELESS)
pop_mode: Any = NAMES.optional("torch.utils._python_dispatch._pop_mode", *USELESS)
dispatch_mode_at: Any = NAMES.optional("torch._C._get_dispatch_stack_at", *USELESS)
DisableTorchDispatch: Any = NAMES.optional("torch._C._DisableTorchDispatch", *USELESS)
TELLS_HOOKS = NAMES.optional("torch._C._autograd.SavedTensor.unpack_hook") is not None
"""Does a saved tensor reveal the hook that unpacks it?"""
current_node: Any = NAMES.optional("torch._C._current_autograd_node", *HEARING)
tree_map: Any = NAMES.optional("torch.utils._pytree.tree_map", *HEARING)
tracing_state: Any = NAMES.optional("torch._C._get_tracing_state", "watches")
FILES = NAMES.optional("torch._C.PyTorchFileWriter", "bridges") and (torch._C, "PyTorchFileWriter")
"""The module and name of the class that writes the files of ``torch.save``, or None."""
_set_version: Any = NAMES.optional("torch._C._autograd._unsafe_set_version_counter")


def queue_last(callback: Callable[[], object]) -> None:
    """Call a function when the running pass ends, after the callbacks that other code has queued until then."""
    queue_callback(lambda: queue_callback(callback))


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set the version counter of a tensor, if PyTorch allows it."""
    if _set_version is None:
        return
    try:
        _set_version((tensor,), (version,))
    except TypeError:  # PyTorch 2.6 takes a single tensor and a single version
        _set_version(tensor, version)


# Names for attributes of objects.

ATTRIBUTES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "torch.Tensor": (
        torch.Tensor,
        ("_version", "_base", "_is_view", "_backward_hooks", "_post_accumulate_grad_hooks", "_indices", "_values"),
    ),
    "torch.UntypedStorage": (torch.UntypedStorage, ("_cdata",)),
    "torch.autograd.graph.Node": (AccumulateGrad, ("_register_hook_dict", "_sequence_nr")),
    "torch.nn.modules.module": (torch.nn.modules.module, ("_global_forward_hooks", "_global_forward_pre_hooks")),
    "torch.nn.Module()": (
        torch.nn.Module(),
        (
            "_modules",
            "_parameters",
            "_buffers",
            "_forward_hooks",
            "_forward_pre_hooks",
            "_backward_hooks",
            "_backward_pre_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_forward_pre_hooks_with_kwargs",
            "_compiled_call_impl",
        ),
    ),
    "torch.ops.aten.exp.default": (torch.ops.aten.exp.default, ("_schema", "_overloadname")),
}
"""Private attributes that backprobe reads. If one is missing, there is no backend."""

for path, (owner, attributes) in ATTRIBUTES.items():
    NAMES.needed_of(owner, path, *attributes)
