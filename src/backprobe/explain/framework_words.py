"""The words of each framework for what remedies mention."""

from __future__ import annotations

from typing import Any

WORDS = {
    "torch": {
        "freeze": "requires_grad_(False)",
        "tensor": "a tensor of one element",
        "join": "torch.stack([...]) or torch.cat([...]) of tensors, clone() for a copy",
        "where": "torch.where",
        "floating": "float(), half() and double()",
        "draw_smoothly": "rsample(), where the distribution has it",
        "differentiably": "create_graph=True there",
        "require": "requires_grad_() on what should be differentiated, before it is used; wrt= in the function form",
        "require_it": "requires_grad_() on it before it is used; in the function form wrt={argument!r}, if it is an "
                      "argument",
        "require_inside": "requires_grad_() on what {text} computes with, as the parameters of a module",
        "go_back": "loss.backward() in the block, in this thread",
        "straight_through": "u + ({op}(u) - u).detach()",
        "noise": "randn_like(mean)",
        "squeeze": ".squeeze(-1)",
        "normalise": "log_softmax(..., dim=1)",
        "of_logits": "cross_entropy",
        "from_logits": "binary_cross_entropy_with_logits or cross_entropy",
        "half": "with autocast around the forward",
    },
    "tensorflow": {
        "freeze": "trainable = False",
        "tensor": "a tensor of one element",
        "join": "tf.stack([...]) or tf.concat([...], 0) of tensors, tf.identity() for a copy",
        "where": "tf.where",
        "floating": "tf.cast to a floating dtype",
        "draw_smoothly": "mean + deviation * tf.random.normal(...), or what the distribution has like it",
        "differentiably": "a tf.GradientTape around it that is asked as well",
        "require": "a Variable with trainable=True for what should be differentiated; in the function form wrt=",
        "require_it": "trainable=True where it is made, if it is a Variable; in the function form wrt={argument!r}, if "
                      "it is an argument",
        "require_inside": "trainable=True for what {text} computes with, as the weights of a model",
        "go_back": "end the block: its gradients are there when it is over",
        "straight_through": "u + tf.stop_gradient({op}(u) - u)",
        "noise": "tf.random.normal(mean.shape)",
        "squeeze": "tf.squeeze(..., -1)",
        "normalise": "tf.nn.log_softmax(...)",
        "of_logits": "tf.nn.sparse_softmax_cross_entropy_with_logits",
        "from_logits": "from_logits=True of the loss",
        "half": "with mixed_float16 or mixed_bfloat16 as the dtype policy",
    },
    "jax": {
        "freeze": "jax.lax.stop_gradient",
        "tensor": "an array of one element",
        "join": "jnp.stack([...]) or jnp.concatenate([...]) of arrays, jnp.copy() for a copy",
        "where": "jnp.where",
        "floating": "astype to a floating dtype",
        "draw_smoothly": "mean + deviation * jax.random.normal(...), or what the distribution has like it",
        "differentiably": "jax.grad of a function, which can itself be differentiated",
        "require": "give it to the function as an argument; where wrt= is given, with its name there",
        "require_it": "wrt={argument!r}, if it is an argument; what is none has to become one",
        "require_inside": "what {text} computes with, given to the function as an argument",
        "go_back": "run the function under bp.probe",
        "straight_through": "u + jax.lax.stop_gradient({op}(u) - u)",
        "noise": "jax.random.normal(key, mean.shape)",
        "squeeze": ".squeeze(-1)",
        "normalise": "jax.nn.log_softmax(...)",
        "of_logits": "optax.softmax_cross_entropy_with_integer_labels",
        "from_logits": "optax.sigmoid_binary_cross_entropy or optax.softmax_cross_entropy",
        "half": "cast to 16 bits in the forward alone",
    },
}  # fmt: skip
"""By framework; the fields in braces are those of the text that a word stands in."""


class FrameworkWords(dict[str, Any]):
    """The fields of a text: what is not among them is a word of the framework's."""

    def __init__(self, framework: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.words = WORDS.get(framework, WORDS["torch"])  # recordings from before it was noted have none

    def __missing__(self, word: str) -> str:
        return self.words[word].format_map(self)
