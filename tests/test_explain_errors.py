"""The notes on errors that PyTorch raises about its graph: which values, at which lines, and what to write instead."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import Parts, leaf, noting
from block_cases import nothing_left
from goldens import golden, golden_note

# what is cut off, and has no entry


@pytest.mark.parametrize("cut", ["net(data).detach().mean()", "torch.tensor(net(data).mean().item())"])
def test_an_error_names_the_line_that_cuts_off_a_model_that_is_no_entry(cut):
    net, data = torch.nn.Linear(3, 3), torch.ones(8, 3)
    program = {
        "net(data).detach().mean()": lambda: net(data).detach().mean(),
        "torch.tensor(net(data).mean().item())": lambda: torch.tensor(net(data).mean().item()),
    }[cut]
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = program()
        loss.backward()
    note = caught.value.__notes__[-1]
    assert "frozen" not in note
    assert "cut:" in note
    assert cut in note.partition("at: ")[2]


def test_an_error_where_the_probed_model_runs_under_no_grad():
    net, data = torch.nn.Linear(3, 3), torch.ones(8, 3)
    with golden_note("explain", but=["frozen"]), bp.probe(net):
        with torch.no_grad():
            out = net(data)
        out.sum().backward()


# what the way goes through out of sight


def test_the_call_that_fails_cuts_nothing():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        d = (x * 2).detach()
        torch.autograd.grad(d.sum(), x)
    golden("explain", caught.value.__notes__[-1])


# a second backward


def test_two_losses_over_one_trunk():
    net = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        h = net(torch.ones(1, 2)).tanh()
        first = h.sum()
        second = (h**2).sum()
        first.backward()
        second.backward()
    _, freed, survived, used, _, or_else = caught.value.__notes__[-1].splitlines()
    assert freed.endswith("first.backward()")
    golden("explain", caught.value.__notes__[-1])


@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM"])
def test_the_state_of_an_rnn_survives_though_backward_has_not_gone_through_it(kind):
    rnn, head = getattr(torch.nn, kind)(2, 3), torch.nn.Linear(3, 1)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        state = None
        for _ in range(2):
            out, state = rnn(torch.ones(4, 1, 2), state)
            loss = head(out[-1]).mean()
            loss.backward()
    _, freed, *survived, used, remedy, _ = caught.value.__notes__[-1].splitlines()
    assert freed.endswith("loss.backward()")
    names = ["state#1.0", "state#1.1"] if kind == "LSTM" else ["state#1"]
    assert [line.split("'")[1] for line in survived] == names
    golden("explain", caught.value.__notes__[-1])


def test_a_call_of_grad_has_freed_the_graph():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        y = (x**3).sum()
        g = torch.autograd.grad(y, x)[0]
        y.backward()
    golden("explain", caught.value.__notes__[-1])
    with noting("torch.autograd.grad(h.sum(), x)\n", "survived: 'h' ("), bp.probe():
        h = x**3
        torch.autograd.grad(h.sum(), x, retain_graph=True)
        torch.autograd.grad(h.sum(), x)
        g = torch.autograd.grad(h.prod(), x)


def test_a_call_that_keeps_the_graph_has_freed_nothing():
    x = leaf(1.0, 2.0)
    with noting("freed:    ", "h.prod().backward()"), bp.probe():
        h = x.exp()
        h.sum().backward(retain_graph=True)
        h.prod().backward()
        h.exp().sum().backward()


def test_losses_that_are_kept_in_a_list():
    w, history = leaf(1.0, 2.0), []
    with pytest.raises(RuntimeError) as caught, bp.probe():
        for i in range(2):
            history.append(w * i * w)
            loss = torch.stack(history).sum()
            loss.backward()
    golden("explain", caught.value.__notes__[-1])


def test_the_remedy_for_a_module_that_writes_in_place():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sigmoid(), torch.nn.ReLU(inplace=True))
    with pytest.raises(RuntimeError) as caught, bp.probe(net):
        net(torch.ones(1, 2)).sum().backward()
    golden("explain", caught.value.__notes__[-1])


class WritesInPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True)

    def forward(self, x):
        h = torch.sigmoid(self.first(x))
        y = self.act(h)
        return y.sum()


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_a_module_that_writes_in_place_is_named_by_its_path(select):
    net = WritesInPlace()
    with pytest.raises(RuntimeError) as caught, bp.probe(net, select):
        net(torch.ones(1, 2)).backward()
    note = caught.value.__notes__[-1]
    golden("explain", note)
    assert "site-packages" not in note


def test_a_module_that_writes_in_place_in_a_line_of_a_plain_block():
    net = WritesInPlace()
    with pytest.raises(RuntimeError) as caught, bp.probe():
        net(torch.ones(1, 2)).backward()
    note = caught.value.__notes__[-1]
    golden("explain", note)


@pytest.mark.parametrize("is_named", [True, False])
def test_an_optimizer_that_updates_what_backward_needs_is_named_by_its_line(is_named):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    written = "\n  written: ", ": optimizer.step()\n  next:    update it after the last backward()"
    with noting(*written), bp.probe(net) if is_named else bp.probe():
        loss = net(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()


def test_a_leaf_that_an_optimizer_updates_between_two_uses():
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    w.grad, optimizer = torch.ones(2), torch.optim.SGD([w], 0.1)
    with bp.probe() as rec:
        a = (x + w).sum()
        optimizer.step()
        b = (x + w).sum()
        (a + b).backward()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.source.text) == ("overwritten", "optimizer.step()")


@pytest.mark.parametrize("write", [True, False])
def test_only_the_inference_tensor_that_the_line_uses_is_named(write):
    x = leaf(1.0, 2.0)
    with golden_note("explain", but=["'other'"]), bp.probe():
        with torch.inference_mode():
            other, used = torch.ones(2), torch.ones(2) * 2
        if write:
            used.add_(1)
        y = used * x


def test_the_remedy_is_about_the_variable_that_the_line_writes_to():
    class Block(Parts):
        def forward(self, x):
            h = self.act(x)
            g = h * x
            h += x
            return h * g

    with pytest.raises(RuntimeError) as caught, bp.probe(block := Block(act=torch.nn.Sigmoid()), ["**", "**:*"]):
        block(leaf(1.0, 2.0)).sum().backward()
    golden("explain", caught.value.__notes__[-1])


def test_a_remedy_spells_the_value_as_the_program_does():
    def f(x, w):
        u = x * w
        k = u.argmax()
        return (w[k] * 2).sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u").findings
    assert "whose gradient flows: u.max()" in finding.remedy


def test_a_backward_before_the_block_has_freed_the_graph():
    w = leaf(1.0, 2.0)
    y = (w**2).sum()
    y.backward()
    freed = "an earlier backward() or grad() has used and freed the graph behind 'y': it was made before this recording"
    with (
        noting(freed, "compute y again before each backward()", "if nothing that y is computed from changes"),
        bp.probe(),
    ):
        y.backward()


# errors


def test_an_error_that_is_not_of_the_graph_gets_no_explanation():
    with pytest.raises(RuntimeError, match="size of tensor a") as caught, bp.probe():
        leaf(1.0, 2.0) + leaf(1.0, 2.0, 3.0)
    assert len(caught.value.__notes__) == 1


def test_an_error_of_a_checkpoint_runs_nothing_again():
    ran = []

    def part(value):
        ran.append(1)
        return value.exp() * value

    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), bp.probe():
        y = checkpoint(part, x, use_reentrant=False)
        v = y.exp()
        v.add_(1)
        v.sum().backward()
    assert len(ran) == 1


def test_nothing_is_left_after_an_error_that_was_explained():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with nothing_left():
        for _ in range(2):
            try:
                with bp.probe() as rec:
                    v = x.exp()
                    array = v.detach().numpy()
                    z = v * w
                    v.add_(1)
                    (z * torch.from_numpy(array)).sum().backward()
            except RuntimeError as error:
                assert "written: 'v#1'" in error.__notes__[-1]
            del rec, v, z, array


def test_the_function_form_explains_its_errors_too():
    def f(x):
        u = x.exp()
        u.add_(1)
        return u * 2

    with noting("saved:   'u#0'", "u.add_(1))"):
        bp.probe(f)(1.0)


def test_an_output_that_is_cut_off_names_the_line():
    def f(x, w):
        u = x * w
        d = u.detach()
        return d * 2

    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(f)(3.0, 2.0)
    (note,) = caught.value.__notes__
    golden("explain", note)


def test_a_number_as_output_names_the_line():
    def f(x, w):
        loss = (x * w).sum()
        return loss.item()

    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(f)(3.0, 2.0)
    assert ": return loss.item()" in caught.value.__notes__[0]


def test_the_error_is_that_of_the_program_where_names_were_not_selected():
    x = leaf(1.0, 2.0)
    with noting("saved:   'z'", match="modified by an inplace operation"), bp.probe(select="z"):
        v = x.exp()
        z = v * x
        v.add_(1)
        z.sum().backward()
