"""A branch that is not taken is given a harmless number: the remedy is code, is tried, and cures."""

import pytest
import torch

import backprobe as bp
from goldens import golden
from masked_branches import HEADS, of, proposed, text_of
from remedied import explained, function

CURED = ("all 2 outputs and gradients are finite then, and equal where they were finite before",)


def made(body, folder):
    return function(text_of("torch", body), folder, HEADS["torch"])


@pytest.mark.parametrize(("framework", "thread", "body", "numbers", "part", "instead"), of("torch"))
def test_the_part_gets_a_harmless_number(framework, thread, body, numbers, part, instead, tmp_path):
    report = explained(made(body, tmp_path), torch.tensor(numbers))
    assert (part, instead) in proposed(report), str(report)
    assert proposed(report)[part, instead].tried == CURED


@pytest.mark.parametrize(("framework", "thread", "body", "numbers", "part", "instead"), of("torch"))
def test_by_pytorch_alone_it_cures(framework, thread, body, numbers, part, instead, tmp_path):
    results = []
    for text in (body, body.replace(part, instead)):
        x = torch.tensor(numbers, requires_grad=True)
        loss = made(text, tmp_path)(x)
        loss.backward()
        results.append((loss.detach(), x.grad))
    (before, bad), (after, grad) = results
    assert bad.isnan().any() and grad.isfinite().all()
    torch.testing.assert_close(after, before)
    torch.testing.assert_close(grad[bad.isfinite()], bad[bad.isfinite()])


def test_a_block_proposes_the_same(tmp_path):
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        y = torch.where(x > 0, torch.log(x), 0.0)
        y.sum().backward()
    assert ("torch.log(x)", "torch.log(torch.where(x > 0, x, 1.0))") in proposed(bp.explain(rec))


HELPER = """
def root(x):
    return torch.sqrt(x)


def f(x):
    y = torch.where(x > 0, root(x), 0.0)
    return y.sum()
"""


def test_a_condition_that_the_line_does_not_know_leaves_words(tmp_path):
    f = function(HELPER, tmp_path, HEADS["torch"])
    (birth,) = explained(f, torch.tensor([0.0, 2.0])).of_kind("born_backward")
    golden("nonfinite", birth)
    assert not birth.tried and "`x`" in birth.remedy


OTHERWISE = {
    "x is another one by then": ("r = torch.sqrt(x); x = x + 1; y = torch.where(x > 1, r, 0.0)", [0.0, 2.0]),
    "it draws numbers": ("r = torch.sqrt(x); k = x > torch.rand(()) / 9; y = torch.where(k, r, 0.0)", [0.0, 2.0]),
    "it is written to": ("r = torch.sqrt(x); k = x < 0; k[1] = True; y = torch.where(k, r, 0.0)", [0.0, 2.0]),
    "of which dimension it is, is not known": (
        "s = x.sqrt().sum(-1); y = torch.where(x[:, 0] != 0, s, 0.0)",
        [[0.0, 3.0], [1.0, 2.0]],
    ),
}


@pytest.mark.parametrize("why", OTHERWISE)
def test_a_condition_that_is_not_sure_to_mean_the_same_is_not_copied(why, tmp_path):
    body, numbers = OTHERWISE[why]
    (birth,) = explained(made(body, tmp_path), torch.tensor(numbers)).of_kind("born_backward")
    assert birth.remedy.startswith("substitute a harmless number for `x`")


def test_a_remedy_that_raises_an_error_is_not_printed(tmp_path):
    """It was run, and an error is no cure."""
    body = "y = torch.where(x > 0, only_once(torch.sqrt(x)), 0.0)"
    f = function(text_of("torch", body), tmp_path, HEADS["torch"] + ONLY_ROOTS)
    report = explained(f, torch.tensor([0.0, 2.0]))
    assert report.of_kind("born_backward") and not proposed(report), str(report)


ONLY_ROOTS = """


def only_once(root):
    if (root == 1).any():
        raise ValueError("a root of 1")
    return root
"""
