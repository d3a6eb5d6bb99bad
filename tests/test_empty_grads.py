"""Programs that read a ``.grad`` which is None: what the note on their error says, in blocks and in scripts."""

import sys
import textwrap

import pytest
import torch

import backprobe as bp
from asked import leaf, noting
from commands import invoked

RAISED = (TypeError, AttributeError)
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


def in_block(*parts, but=()):
    return noting(*parts, kind=RAISED, but=but)


# in blocks


def test_a_value_that_is_not_a_leaf():
    with in_block("w.grad is None: 'w' is not a leaf", "made:    'w' (", "w = leaf(1.0, 2.0) * 0.1", "retain_grad()"):
        with bp.probe():
            w = leaf(1.0, 2.0) * 0.1
            loss = (w**2).sum()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad


def test_a_leaf_that_an_update_replaces():
    w = leaf(1.0, 2.0)
    with in_block("w.grad is None: 'w#1' is not a leaf", "with torch.no_grad(): w -= ...", but=["retain_grad"]):
        with bp.probe() as rec:
            for _ in range(2):
                loss = (w**2).sum()
                loss.backward()
                w = w - 0.1 * w.grad
    assert bp.explain(rec).of_kind("raised")[0].facts[0].startswith("w.grad is None: 'w#1' is not a leaf")


def test_a_leaf_that_an_update_replaces_under_no_grad():
    w, b = leaf(1.0, 2.0), leaf(1.0)
    with in_block("w.grad is None: 'w#1' does not require a gradient", "why:     'w#1' is computed from 'w#0' under"):
        with bp.probe():
            for _ in range(2):
                loss = (w**2 + b).sum()
                loss.backward()
                with torch.no_grad():
                    w = w - 0.1 * w.grad


def test_what_never_required_a_gradient():
    image, w = torch.ones(2), leaf(1.0, 2.0)
    with in_block("image.grad is None: 'image' does not require a gradient", "image.requires_grad_() before"):
        with bp.probe():
            (image * w).sum().backward()
            image.grad.sign()


def test_a_gradient_that_was_cleared_before_it_is_read():
    w = leaf(1.0, 2.0)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with in_block("w.grad is None: backward() brought 'w' a gradient, which was cleared since"), bp.probe():
        (w**2).sum().backward()
        optimizer.zero_grad()
        w.grad.norm()


def test_a_leaf_that_backward_does_not_reach():
    w, spare = leaf(1.0, 2.0), leaf(1.0)
    with in_block("nothing that backward() ran from leads back to 'spare'"), bp.probe():
        out = w * 2 + spare.detach()
        out.sum().backward()
        spare.grad.zero_()


def test_a_gradient_that_is_read_before_backward():
    w = leaf(1.0, 2.0)
    with in_block("w.grad is None: no backward() has run since the recording began"), bp.probe():
        loss = (w**2).sum()
        step = -0.1 * w.grad
        (loss + step).backward()


def test_a_gradient_that_is_read_under_a_name():
    x = leaf(1.0, 2.0)
    with in_block("u.grad is None: 'u' is not a leaf"), bp.probe():
        u = x * 2
        u.sum().backward()
        direction = u.grad
        print(torch.sign(direction))


def test_parameters_in_a_list_are_named_as_the_recording_has_them():
    parts = [leaf(1.0), leaf(2.0)]
    with in_block("part.grad is None: 'parts#1.0' is not a leaf"), bp.probe():
        for _ in range(2):
            (parts[0] * parts[1]).sum().backward()
            parts = [part - 0.1 * part.grad for part in parts]


def test_another_error_about_none_has_no_such_note():
    w, settings = leaf(1.0, 2.0), {"rate": None}
    with pytest.raises(TypeError) as caught, bp.probe():
        (w**2).sum().backward()
        w.grad * settings["rate"]
    assert [note for note in caught.value.__notes__ if "grad is None" in note] == []


# in scripts


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Explain a script in this process: its output and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def explain(text, status):
        (tmp_path / "train.py").write_text("import torch\nX = torch.ones(8, 3)\n" + textwrap.dedent(text))
        found, out, err = invoked("explain", "train.py")
        assert found == status, out + err
        return out + err

    return explain


LOOP = """
    w = torch.zeros(3, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    for i in range(3):
        loss = ((X @ w + b - 1) ** 2).mean()
        loss.backward()
        {}
"""
INDENT = "\n        "


def test_the_second_iteration_of_a_loop_shows_what_replacing_a_leaf_does(script):
    out = script(LOOP.format("w = w - 0.1 * w.grad"), 3)
    assert "w.grad is None: 'w#1' is not a leaf" in out
    assert "with torch.no_grad(): w -= ..." in out


def test_a_script_whose_update_under_no_grad_replaces_all_leaves(script):
    update = "with torch.no_grad():", "    w = w - 0.1 * w.grad", "    b = b - 0.1 * b.grad"
    out = script(LOOP.format(INDENT.join(update)), 3)
    assert "'loss#1' leads back to nothing that requires a gradient" in out
    assert "'w#1' is computed from 'w#0' under torch.no_grad()" in out


def test_a_script_whose_update_replaces_an_attribute(script):
    text = """
    class Model:
        def __init__(self):
            self.w = torch.zeros(3, requires_grad=True)

        def step(self):
            loss = ((X @ self.w - 1) ** 2).mean()
            loss.backward()
            self.w = self.w - 0.1 * self.w.grad

    model = Model()
    for i in range(3):
        model.step()
    """
    out = script(text, 3)
    assert "self.w.grad is None: '/step#0:self.w' is not a leaf" in out
    assert "with torch.no_grad(): self.w -= ..." in out


def test_a_leaf_that_is_replaced_by_a_new_leaf_is_well(script):
    update = "w = (w - 0.1 * w.grad).detach().requires_grad_()", "b.grad = None"
    assert "iteration 2 of" in script(LOOP.format(INDENT.join(update)), 0)
    attack = """
    x = torch.ones(3)
    for i in range(3):
        x.requires_grad_()
        loss = (X @ x).sum().sigmoid()
        loss.backward()
        x = (x + 0.1 * x.grad.sign()).detach()
    """
    assert "iteration 2 of" in script(attack, 0)


@pytest.mark.parametrize("around", ["with torch.no_grad():", "try:"])
def test_an_error_in_a_with_statement_of_a_script_has_its_note(script, around):
    text = f"""
    def train():
        w = torch.zeros(3, requires_grad=True).double().float()
        for i in range(3):
            loss = ((X @ w - 1) ** 2).mean()
            loss.backward()
            {around}
                w -= 0.1 * w.grad
            {"" if "with" in around else "finally: i = 0"}

    train()
    """
    out = script(text, 3)
    assert "w.grad is None: '/train:w' is not a leaf" in out
    assert "the program raised TypeError" in out
