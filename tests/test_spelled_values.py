"""Remedies that spell a value as the program writes it, such as an item of a dict: put in as they stand, they cure."""

import warnings

import pytest

import backprobe as bp
from goldens import golden
from remedied import defined

HEAD = """
import torch
torch.manual_seed(0)
x = torch.randn(8, 3)
"""
USE = "(x @ params['weight'] + params['bias']).square().mean()"
FROZEN = """
params = {"weight": torch.ones(3), "bias": torch.zeros(1, requires_grad=True)}
# cure
def train(block):
    with block():
        loss = {use}
        loss.backward()
        for k in params:
            params[k].grad.zero_()
"""
REPLACED = """
params = {"weight": torch.ones(3, requires_grad=True), "bias": torch.zeros(1, requires_grad=True)}
def train(block):
    with block():
        for _ in range(3):
            loss = {use}
            loss.backward()
            for k in params:
                {update}
"""


def note_of(tmp_path, text):
    program = defined(HEAD + text.replace("{use}", USE), tmp_path)
    with warnings.catch_warnings(), pytest.raises((TypeError, AttributeError)) as caught:
        warnings.simplefilter("ignore")  # PyTorch's own, about the .grad of what is not a leaf
        program.train(bp.probe)
    return caught.value.__notes__[-1]


def test_a_frozen_item_of_a_dict_is_written_with_its_key(tmp_path):
    note = note_of(tmp_path, FROZEN)
    golden("explain", note)
    cured = FROZEN.replace("# cure", "params['weight'].requires_grad_()")
    defined(HEAD + cured.replace("{use}", USE), tmp_path).train(bp.probe)


def test_an_item_that_a_loop_replaces_by_what_is_not_a_leaf_is_to_be_changed_in_place(tmp_path):
    text = REPLACED.replace("{update}", "params[k] = params[k] - 0.1 * params[k].grad")
    note = note_of(tmp_path, text)
    golden("explain", note)
    assert "retain_grad" not in note
    block = "with torch.no_grad(): params[k] -= 0.1 * params[k].grad"
    defined(HEAD + REPLACED.replace("{update}", block).replace("{use}", USE), tmp_path).train(bp.probe)


def test_all_that_a_loss_is_computed_from_is_frozen(tmp_path):
    text = FROZEN.replace(", requires_grad=True", "")
    program = defined(HEAD + text.replace("{use}", USE), tmp_path)
    with pytest.raises(RuntimeError) as caught:
        program.train(bp.probe)
    remedy = "requires_grad_() on x or params['weight'] or params['bias'], before it is used"
    assert f"next:    {remedy}" in caught.value.__notes__[-1]


@pytest.mark.parametrize(("held", "use"), [("{'w': w}", "held['w']"), ("[w]", "held[0]"), ("(w, x)", "held[0]")])
def test_wrt_is_given_the_argument_that_holds_the_value(held, use, tmp_path):
    program = defined(
        f"{HEAD}w = torch.ones(3)\nheld = {held}\ndef f(x, held):\n    return (x @ {use}).sum()\n", tmp_path
    )
    rec = bp.probe(program.f, wrt="x")(program.x, program.held)
    lost = next(name for name in rec if name.startswith("held"))
    (finding,) = bp.explain(rec, lost).findings
    golden("explain", finding)
    assert bp.probe(program.f, wrt="held")(program.x, program.held)[lost].grad is not None


UPDATED = """
w = torch.ones(3, requires_grad=True)
def train(block):
    w = globals()["w"]
    with block():
        for _ in range(3):
            loss = (x @ w).square().mean()
            loss.backward()
            with torch.no_grad():
                {update}
                w.grad = None
    return w
"""


def test_a_step_under_no_grad_that_makes_a_new_tensor_is_to_change_the_leaf(tmp_path):
    text = UPDATED.replace("w.grad = None\n", "pass\n")
    program = defined(HEAD + text.replace("{update}", "w = w - 0.1 * w.grad"), tmp_path)
    with pytest.raises(RuntimeError) as caught:
        program.train(bp.probe)
    note = caught.value.__notes__[-1]
    golden("explain", note)
    assert "outside that context" not in note
    leaves = [
        defined(HEAD + UPDATED.replace("{update}", update), tmp_path).train(bp.probe)
        for update in ("w -= 0.1 * w.grad", "w = (w - 0.1 * w.grad).requires_grad_()")
    ]
    assert all(one.is_leaf and one.requires_grad for one in leaves)
    assert leaves[0].equal(leaves[1])
