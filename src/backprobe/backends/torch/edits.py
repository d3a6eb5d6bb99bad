"""Data for ``Backend.edits``: code that cuts the graph, and its possible replacements, through which gradients flow."""

from __future__ import annotations

EDITS = {
    ".detach()": ("{0}",),
    ".detach_()": ("{0}",),
    ".data": ("{0}",),
    ".item()": ("{0}",),
    ".tolist()": ("{0}",),
    ".numpy()": ("{0}",),
    ".sample()": ("{0}.rsample()",),
    "builtins.float": ("{1}",),
    "torch.tensor": ("{1}", "torch.stack"),
    "torch.as_tensor": ("{1}", "torch.stack"),
    "torch.nested.nested_tensor": ("torch.nested.as_nested_tensor",),
    "torch.from_numpy": ("{1}",),
    "torch.nn.parameter.Parameter": ("{1}",),
    "torch.nn.Parameter": ("{1}",),
    "numpy.array": ("{1}", "torch.stack"),
    "numpy.asarray": ("{1}", "torch.stack"),
    "torch.autograd.grad": ("create_graph=True",),
    "torch.autograd.functional.jacobian": ("create_graph=True",),
    "torch.autograd.functional.hessian": ("create_graph=True",),
    "math.*": ("torch.*",),
    "numpy.*": ("torch.*",),
    "with torch.no_grad": ("torch.enable_grad()",),
    "with torch.inference_mode": ("torch.enable_grad()",),
    "with torch.set_grad_enabled": ("torch.enable_grad()",),
}
