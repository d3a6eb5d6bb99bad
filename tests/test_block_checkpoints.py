"""Blocks through checkpoints of every kind are as blocks without: names, values, statuses and gradients."""

import functools
import inspect
import operator

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

import backprobe as bp
from block_cases import assert_grads, assert_same, case, grads, same
from lost_hooks import unheard

pytestmark = pytest.mark.usefixtures("leaves_nothing")

transformers.logging.set_verbosity_error()
KINDS = pytest.mark.parametrize("reentrant", [False, True], ids=["non_reentrant", "reentrant"])
CHECKPOINTS = "Checkpoints"


# checkpoints


def step(function, *args):
    """Calls as a library does."""
    return operator.call(function, *args)


def checkpointing(**options):
    def step(function, *args):
        return checkpoint(function, *args, **options)

    return step


def small(kind):
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=16, n_layer=2, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=50,
        max_position_embeddings=32,
        bos_token_id=0,
        eos_token_id=0,
        attention_dropout=0.1,
    )
    return transformers.LlamaForCausalLM(config)


def trained(model, ids, select=None):
    """One step, probed if anything is selected; what it recorded and what it left in ``.grad``."""
    model.train()
    model.zero_grad()
    torch.manual_seed(1)
    if select is None:
        model(ids, labels=ids).loss.backward()
        return None, grads(model)
    with bp.probe(model, select) as rec:
        model(ids, labels=ids).loss.backward()
    return rec, grads(model)


@KINDS
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@case("`activation_checkpointing_enable` of Hugging Face models, both kinds, all locals, with dropout", CHECKPOINTS)
def test_every_local_of_a_checkpointed_transformer(kind, reentrant):
    model, ids = small(kind), torch.randint(0, 50, (2, 6))
    model.config.use_cache = False  # as checkpointing makes it
    plain, _ = trained(model, ids, ["**", "**:*"])
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    _, bare = trained(model, ids)
    rec, found = trained(model, ids, ["**", "**:*"])
    assert all(same(found[name], bare[name]) for name in bare)
    assert_same(rec, plain)
    assert rec["transformer.h.1.attn:query_states#-1" if kind == "gpt2" else "model.layers.1.self_attn:query_states#-1"]


def part(value, w):
    hidden = value * w
    hidden = F.dropout(hidden, 0.3)
    inner = hidden.sin()
    return inner * 2


def other_part(value, w):
    turned = part(value, w)
    back = turned.cos()
    return back + value


def plain_block(call):
    torch.manual_seed(3)
    x = torch.linspace(-1, 1, 6, requires_grad=True)
    w = torch.linspace(1, 2, 6, requires_grad=True)
    torch.manual_seed(1)
    with bp.probe() as rec:
        h = x * 3
        a = call(part, h, w)
        b = call(part, a, w)
        c = call(other_part, b, w)
        loss = c.sum()
        loss.backward()
    return rec, x.grad, w.grad


def assert_plain(call):
    """A plain block with checkpoints is as one without: names, values, gradients."""
    expected, x, w = plain_block(step)
    rec, x_grad, w_grad = plain_block(call)
    assert same(x_grad, x)
    assert same(w_grad, w)
    assert_same(rec, expected)


@KINDS
@case("in a plain block, called twice with the same function, with dropout", CHECKPOINTS)
def test_a_plain_block_through_checkpoints(reentrant):
    assert_plain(checkpointing(use_reentrant=reentrant))


class Nested(nn.Module):
    """A checkpoint in a checkpoint, one module called twice, and in-place operations."""

    def __init__(self, step):
        super().__init__()
        self.step, self.inner, self.outer = step, nn.Linear(3, 3), nn.Linear(3, 3)
        self.drop = nn.Dropout(0.4)

    def deep(self, value):
        before = self.inner(value)
        relu = F.relu(before, inplace=True)
        return self.drop(relu)

    def middle(self, value):
        first = self.step(self.deep, value)
        turned = self.outer(first)
        turned += 1
        return turned.tanh()

    def forward(self, x):
        once = self.step(self.middle, x)
        twice = self.step(self.middle, once)
        return self.step(self.inner, twice)


def nested(step, select=("**", "**:*")):
    torch.manual_seed(0)
    model, x = Nested(step), torch.randn(2, 3, requires_grad=True)
    torch.manual_seed(1)
    if select is None:
        model(x).square().sum().backward()
        return None, model
    with bp.probe(model, list(select)) as rec:
        model(x).square().sum().backward()
    return rec, model


@KINDS
@case("nested checkpoints, one module several times, in-place operations in them", CHECKPOINTS)
def test_nested_checkpoints(reentrant):
    expected, _ = nested(step)

    checkpointed = checkpointing(use_reentrant=reentrant)
    _, bare = nested(checkpointed, None)
    rec, model = nested(checkpointed)
    assert_grads(model, grads(bare))
    assert_same(rec, expected, but=() if reentrant else unheard(rec, "x"))
    assert rec["inner#2"].status == "ok"


@KINDS
def test_nested_checkpoints_in_a_plain_block(reentrant):
    def deep(value, *others):
        turned = value.sin()
        turned *= 2
        return F.dropout(turned, 0.5)

    def middle(value, call):
        first = call(deep, value)
        second = call(deep, first + 1, value)  # a checkpoint wants an argument that requires a gradient
        return second.cos()

    def outer(value, call):
        inside = call(middle, value, call)
        return inside * value

    def run(call):
        x = torch.linspace(-1, 1, 5, requires_grad=True)
        torch.manual_seed(1)
        with bp.probe() as rec:
            once = call(outer, x, call)
            twice = call(middle, once, call)
            twice.sum().backward()
        return rec

    rec = run(checkpointing(use_reentrant=reentrant))
    assert_same(rec, run(step), but=() if reentrant else unheard(rec, "x"))
    assert "/step#0/outer/step/middle/step#1/deep:turned#1" in rec


@case("`determinism_check`, `early_stop`, debugging, `checkpoint_sequential`", CHECKPOINTS)
def test_other_options_of_checkpoints():
    early = [{"early_stop": False}] if "early_stop" in inspect.signature(checkpoint).parameters else []
    for options in ({"determinism_check": "none"}, {"determinism_check": "default"}, *early):
        expected, _ = nested(step)
        rec, _ = nested(checkpointing(use_reentrant=False, **options))
        assert_same(rec, expected, but=unheard(rec, "x"))
    for context in (set_checkpoint_debug_enabled(True), set_checkpoint_early_stop(False)):
        with context:
            rec, _ = nested(checkpointing(use_reentrant=False))
        assert_same(rec, expected, but=unheard(rec, "x"))

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Sigmoid()), torch.randn(2, 3)
    with bp.probe(model, "**") as expected:
        model(x).sum().backward()
    for reentrant in (False, True):
        with bp.probe(model, "**") as rec:
            checkpoint_sequential(model, 2, x.requires_grad_(), use_reentrant=reentrant).sum().backward()
        # the whole is not called, its modules are; the last of them gave what backward() ran from
        assert [name for name in expected if name not in rec] == []
        for name, entry in expected.items():
            assert same(rec[name].grad_or_none, entry.grad_or_none), name


@case("selective checkpoints (`create_selective_checkpoint_contexts`)", CHECKPOINTS)
def test_selective_checkpoints():
    def policy(context, op, *args, **kwargs):
        keeps = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    def pure(value):  # in-place operations are not allowed in selective checkpoints
        turned = value.sin() @ value.T
        return turned.cos() * 2

    def run(call):
        torch.manual_seed(0)
        model, x = nn.Linear(3, 3), torch.randn(3, 3)
        with bp.probe(model, "**") as modules:
            with bp.probe() as rec:
                h = model(x)
                a = call(pure, h)
                loss = call(model, a).sum()
                loss.backward()
        return rec, modules, grads(model)

    expected, expected_modules, bare = run(step)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    rec, modules, found = run(checkpointing(use_reentrant=False, context_fn=contexts))
    assert all(same(found[name], bare[name]) for name in bare)
    assert_same(modules, expected_modules)
    # the policy is the program's own function as well, and runs inside: what it is given has its names there
    entries = {name: entry for name, entry in rec.items() if "/policy" not in name}
    assert [*entries] == [*expected]
    for name, entry in expected.items():
        assert same(entries[name].value, entry.value), name
        assert same(entries[name].grad_or_none, entry.grad_or_none), name


@KINDS
@case("read while the block is open, before and after backward(); no backward()", CHECKPOINTS)
def test_a_checkpointed_recording_that_is_read_early(reentrant):
    torch.manual_seed(0)
    model = Nested(checkpointing(use_reentrant=reentrant))
    x = torch.randn(2, 3, requires_grad=True)
    torch.manual_seed(1)
    with bp.probe(model, ["**", "**:*"]) as rec:
        loss = model(x).square().sum()
        names = [*rec]
        assert rec[":once"].status == "backward_not_run"
        inside = rec["outer#0"]
        assert inside.status == ("opaque" if reentrant else "backward_not_run")
        assert not reentrant or inside.reason == (
            "it was computed inside a reentrant checkpoint, and was not seen again when that was recomputed"
        )
        loss.backward()
        assert rec["outer#0"].status == "ok"
    assert [*rec][: len(names)] == names
    expected, _ = nested(step)
    lost = () if reentrant else unheard(rec, "x")
    for name in names:
        assert name in lost or same(rec[name].grad_or_none, expected[name].grad_or_none), name

    with bp.probe(model, ["**", "**:*"]) as rec:
        model(x)
    assert rec["outer#0"].status == ("opaque" if reentrant else "backward_not_run")
