"""Values that get their first name when backward() is over, as parts of a loss that are shown: no fault, and no cut."""

import warnings

import pytest
import torch

import backprobe as bp


def step(after, *, steps=True):
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    losses = []
    with bp.probe() as rec:
        losses.append((net(torch.ones(4, 3)) - 1).square().mean())
        total = sum(losses)
        total.backward()
        if steps:
            optimizer.step()
        after(losses, total)
    return rec


def shown(losses, total):
    for part in losses:
        print(part.item(), total.item())


def kept(losses, total):
    losses[:] = [part.detach() for part in losses]


def chosen(losses, total):
    first = losses[0]
    return first


@pytest.mark.parametrize("after", [shown, kept, chosen])
@pytest.mark.parametrize("steps", [True, False])
def test_what_is_named_when_backward_is_over_is_no_finding(after, steps):
    report = bp.explain(step(after, steps=steps))
    assert report.ok, str(report)
    assert "sent no gradient" not in str(report)


def test_its_reason_says_so():
    rec = step(chosen)
    entry = rec["/chosen:first"]
    assert (entry.status, entry.reason) == (
        bp.GradStatus.BACKWARD_NOT_RUN,
        "it got its name only after backward() had run, so its gradient was not recorded",
    )
    assert "no path leads" not in str(bp.explain(rec, "/chosen:first"))


def test_what_is_computed_when_backward_is_over_leads_to_no_output():
    def computed(losses, total):
        again = losses[0] * 2
        return again

    entry = step(computed)["/computed:again"]
    assert entry.status is bp.GradStatus.NOT_CONNECTED


def test_a_custom_backward_that_gives_none_is_still_found():
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            return None

    w = torch.ones(3, requires_grad=True)
    with bp.probe() as rec:
        h = w * 2
        out = Silent.apply(h) + w
        out.sum().backward()
    assert bp.explain(rec, "h").findings[0].kind == "silent"


def test_parts_of_a_loss_that_are_shown_afterwards_are_not_said_to_pass_nothing_back():
    layers, head = [torch.nn.Linear(4, 4) for _ in range(2)], torch.nn.Linear(4, 1)
    with bp.probe() as rec:
        x, losses = torch.ones(8, 4), []
        for layer in layers:
            x = torch.tanh(layer(x))
            losses.append(head(x).square().mean())
        total = sum(losses)
        total.backward()
        history = [part.item() for part in losses]
    assert len(history) == 2
    assert not [note for note in bp.explain(rec).notes if "no gradient flows back" in note]


def test_a_list_that_is_copied_without_history_is_a_note_beside_a_result_without_a_name():
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.probe() as rec, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, once in a process
        parts = []
        for _ in range(2):
            parts.append(net(torch.ones(4)).square())
        loss = torch.tensor(parts, requires_grad=True).mean()
        loss.backward()
        optimizer.step()
    (note,) = [note for note in bp.explain(rec).notes if "`parts` is not recorded" in note]
    assert "cut off (copied) at 'loss'" in note
