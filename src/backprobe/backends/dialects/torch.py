"""The dialect of PyTorch."""

from __future__ import annotations

from backprobe.backends.dialects.dialect import Dialect

DIALECT = Dialect(
    name="torch",
    prefix="torch.",
    spelled={
        "max_of_numbers": "max({0}, {1})",
        "min_of_numbers": "min({0}, {1})",
        "unsqueeze": "({0}).unsqueeze({1})",
        "maximum": "torch.clamp({0}, min={1})",
        "minimum": "torch.clamp({0}, max={1})",
        "log_sigmoid": "torch.nn.functional.logsigmoid({0})",
        "softplus": "torch.nn.functional.softplus({0})",
        "log_of_others": (
            "torch.logsumexp({0}.unsqueeze(-2).masked_fill(torch.eye({0}.shape[-1], dtype=torch.bool), "
            "-torch.inf), dim=-1) - torch.logsumexp({0}, dim=-1, keepdim=True)"
        ),
        "cross_entropy": "torch.nn.functional.cross_entropy({0}, {1}{given})",
        "nll_loss": "torch.nn.functional.nll_loss({0}, {1}{given})",
    },
    arguments={
        "dim": "dim",
        "keepdim": "keepdim",
        "correction": "correction",
    },
    lacks=frozenset([]),
    meanings={
        "gather": "along_axis",
        "transpose": "swap_two",
        "cumsum": "cumsum_along",
        "cumprod": "cumprod_along",
        "std": "std_less_one",
        "var": "var_less_one",
        "max": "max_with_position",
        "min": "min_with_position",
        "size": "shape",
        "logcumsumexp": "logcumsumexp_along",
    },
    from_logits="torch.nn.functional.cross_entropy({a}, labels)",
    binary_from_logits="torch.nn.functional.binary_cross_entropy_with_logits({a}, labels)",
    float32="{0}.float()",
    clipped="torch.nn.utils.clip_grad_norm_(parameters, 1.0) before the optimizer's step()",
    ones="torch.ones({})",
    cut_off=(
        "no argument or parameter requires a gradient, or the graph was cut on the way (detach, no_grad)",
        "requires_grad_() on an input or parameter; in the function form, remove what cuts the graph",
    ),
    loading=("load_state_dict", "vector_to_parameters"),
    stack="torch.stack",
    gives_pairs=True,
    takes_one_dimension=True,
    runs_backward=True,
    requires_on_tensors=True,
    remedies={
        "freeze": "requires_grad_(False)",
        "leave_it": "freeze it with requires_grad_(False)",
        "leave_them": "freeze them with requires_grad_(False)",
        "tensor": "a tensor of one element",
        "join": "torch.stack([...]) or torch.cat([...]) of tensors, clone() for a copy",
        "where": "torch.where",
        "floating": "float(), half() and double()",
        "draw_smoothly": "rsample(), where the distribution has it",
        "differentiably": "create_graph=True there",
        "require": "requires_grad_() on what should be differentiated, before it is used; wrt= in the function form",
        "require_it": (
            "requires_grad_() on it before it is used; in the function form wrt={argument!r}, if it is an argument"
        ),
        "require_inside": "requires_grad_() on what {text} computes with, as the parameters of a module",
        "go_back": "loss.backward() in this thread, before the recording ends",
        "straight_through": "u + ({op}(u) - u).detach()",
        "noise": "randn_like(mean)",
        "squeeze": ".squeeze(-1)",
        "normalise": "log_softmax(..., dim=1)",
        "of_logits": "cross_entropy",
        "from_logits": "binary_cross_entropy_with_logits or cross_entropy",
        "half": "with autocast around the forward",
    },
)
