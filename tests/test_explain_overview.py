"""``bp.explain`` of a whole recording: each cause once, and what is no fault as notes."""

import copy
import random

import numpy as np
import pytest
import torch

import backprobe as bp
from asked import Parts, kinds, leaf, well
from custom import custom
from goldens import golden


def test_a_loop_that_cuts_at_each_turn_is_one_finding():
    def f(x, w):
        h = x
        for _ in range(20):
            h = (h * w).detach()
        return (h * w).sum()

    recording = bp.probe(f)(leaf(1.0, 2.0), leaf(0.5, 0.5))
    (finding,) = bp.explain(recording).findings
    assert finding.kind == "detach"
    golden("explain", finding)


def noted(report, words):
    return [note for note in report.notes if words in note]


BESIDE = "computed, and not used for an output: "


def test_a_value_that_is_not_used_is_a_note_where_no_gradient_is_missing_for_it():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        total = w.sum()
        for i in range(20):
            a = w * i
            monitor = a.norm()
            _, largest = torch.max(a.view(1, 2), 1)
            total = total + a.sum()
        total.backward()
    report = well(bp.explain(rec))
    golden("explain", noted(report, BESIDE))
    assert kinds(bp.explain(rec, "monitor#3")) == ["unused"]


def test_a_leaf_that_is_not_used_is_a_finding_with_where_its_way_ends():
    def f(x, w):
        for _ in range(3):
            t = x * w
        return w.sum()

    report = bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)))
    (finding,) = report.findings
    assert (finding.kind, finding.name, finding.source.text) == ("unused", "x", "t = x * w")
    golden("explain", finding)
    assert noted(report, BESIDE) == [f"{BESIDE}t (3 times)"]


def test_the_parameters_of_a_module_that_is_not_used_are_one_finding():
    class Two(Parts):
        def forward(self, x):
            self.left(x)
            return self.used(x).sum()

    two = Two(used=torch.nn.Linear(2, 1), left=torch.nn.Linear(2, 1))
    (finding,) = bp.explain(bp.probe(two)(torch.ones(1, 2))).findings
    assert (finding.kind, finding.name, finding.source.text) == ("dropped", "left.weight", "self.left(x)")
    golden("explain", finding)


def test_a_state_that_the_last_step_gives_is_a_note():
    rnn, data = torch.nn.GRU(2, 2), torch.ones(3, 1, 2)
    with bp.probe() as rec:
        out, state = rnn(data)
        out.sum().backward()
    report = well(bp.explain(rec))
    golden("explain", report)


def test_higher_derivatives_are_healthy():
    net, points = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), leaf(0.1, 0.2)
    w, first_order = leaf(1.0, 2.0), False
    with bp.probe() as rec:
        t = points[:, None]
        u = net(t)
        du = torch.autograd.grad(outputs=u.sum(), inputs=t, create_graph=True)[0]
        d2u = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
        inner = ((w * 2) ** 2).sum()
        (g,) = torch.autograd.grad(inner, w, create_graph=not first_order)
        fast = w - 0.1 * g
        ((d2u + u * 0) ** 2).sum().backward()
        (fast**2).sum().backward()
    report = well(bp.explain(rec))
    assert noted(report, "only the derivative") == []  # these have the gradients of the passes that go through them


def test_a_derivative_whose_flag_was_off_is_cut_off():
    def f(w, first_order=True):
        inner = (w**3).sum()
        (g,) = torch.autograd.grad(inner, w, create_graph=not first_order)
        return (g * 2).sum() + w.sum()

    (finding,) = bp.explain(bp.probe(f)(leaf(1.0, 2.0)), "inner").findings
    assert finding.kind == "derivative"


def test_what_cannot_be_told_is_a_note():
    w, online, target = leaf(1.0, 2.0), leaf(3.0), leaf(4.0)
    with bp.probe() as rec:
        loss = torch.func.grad(lambda v: (v**3).sum())(w).sum()
        loss.backward()
        with torch.no_grad():
            target.mul_(0.99).add_(online)
    report = well(bp.explain(rec))
    golden("explain", report)


def test_what_is_no_tensor_is_a_note_and_what_is_frozen_is_none():
    def f(x, w):
        n = 3
        k = x.argmax()
        ones = torch.ones(2)
        return (x * w * ones).sum() * n

    report = well(bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0))))
    golden("explain", report)


def test_items_of_a_comprehension_that_cuts_are_lost_with_what_it_goes_through():
    def f(x, w):
        u = x * w
        parts = [one.item() for one in u]
        return (torch.tensor(parts) * w).sum()

    assert kinds(bp.explain(bp.probe(f)(leaf(1.0, 2.0), leaf(3.0, 4.0)))) == ["number"]


def test_modules_that_did_not_run_are_no_fault():
    class Net(Parts):
        def forward(self, x):
            return self.used(x)

    rec = bp.probe(Net(used=torch.nn.Linear(2, 1), spare=torch.nn.Dropout()), of=lambda y: y.sum())(torch.ones(1, 2))
    assert bp.explain(rec).ok
    assert "no call was seen of spare" in bp.explain(rec).notes
    assert bp.explain(rec, "spare").findings[0].kind == "not_executed"


def test_an_argument_of_a_function_that_is_not_used_is_a_finding():
    def one_of_two(a, b):
        doubled = a * 2
        return b.sum()

    report = bp.explain(bp.probe(one_of_two)(torch.ones(3), torch.ones(3)))
    assert [(one.kind, one.name) for one in report.findings] == [("unused", "a")]


def test_an_argument_that_goes_into_another_result_is_none():
    def step(weight, momentum):
        loss = (weight**2).sum()
        momentum = momentum * 0.9
        return momentum, loss

    report = well(bp.explain(bp.probe(step, of=1)(torch.ones(3), torch.ones(3))))
    assert any("momentum" in note for note in report.notes)


def test_each_version_of_a_weight_that_is_updated_by_hand_has_its_own_gradient():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
            with torch.no_grad():
                w -= 0.25 * w.grad
            w.grad = None
    report = well(bp.explain(rec))
    assert not noted(report, BESIDE)  # of the last version, which the next step will use
    assert report.heading == "6 of 6 values with a gradient"
    assert [rec[f"w#{at}"].grad.tolist() for at in range(3)] == [[2.0, 4.0], [1.0, 2.0], [0.5, 1.0]]


def test_a_weight_that_is_updated_through_data_is_a_note():
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
            w.data -= 0.25 * w.grad
            w.grad = None
    report = well(bp.explain(rec))
    (note,) = noted(report, "the gradient of 'w' cannot be captured")
    golden("explain", note)
    assert kinds(bp.explain(rec, "w")) == ["opaque"]


@pytest.mark.parametrize("through_data", [False, True])
def test_a_weight_that_is_written_between_its_use_and_backward_stays_a_finding(through_data):
    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        for _ in range(2):
            loss = (w + 1).sum()
            with torch.no_grad():
                if through_data and w.grad is not None:
                    w.data.mul_(0.5)
                elif w.grad is not None:
                    w.mul_(0.5)
            loss.backward()
    assert kinds(bp.explain(rec)) == ["overwritten"]


def test_clipped_weights_and_those_that_follow_others_are_notes():
    net = torch.nn.Linear(2, 1)
    target, optimizer = copy.deepcopy(net), torch.optim.SGD(net.parameters(), 0.1)
    with bp.probe() as rec:
        for _ in range(3):
            loss = net(torch.ones(1, 2)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for p in net.parameters():
                p.data.clamp_(-0.1, 0.1)
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow.data.mul_(0.9).add_(0.1 * fast.data)
    well(bp.explain(rec))


def test_weights_that_are_moved_to_and_fro_around_a_second_pass_are_notes():
    net, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
    with bp.probe() as rec:
        for _ in range(2):
            first = (net(x) ** 2).sum()
            first.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(0.1)
            second = (net(x) ** 2).sum()
            second.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.sub_(0.1)
    well(bp.explain(rec))


def test_what_a_reentrant_checkpoint_may_have_used_before_the_write_is_not_told():
    w, x = leaf(1.0, 2.0), leaf(1.0, 1.0)
    with bp.probe() as rec:
        part = torch.utils.checkpoint.checkpoint(lambda value: w * value, x, use_reentrant=True)
        with torch.no_grad():
            w *= 3
        total = (part + w.sin()).sum()
        total.backward()
    assert kinds(bp.explain(rec)) == ["overwritten"]


def test_a_cut_is_a_note_where_all_leaves_behind_it_are_reached_by_other_ways(tmp_path):
    net = torch.nn.GRU(2, 2)
    with bp.probe() as rec:
        state = torch.zeros(1, 1, 2)
        for _ in range(3):
            out, state = net(torch.ones(3, 1, 2), state)
            loss = out.sum()
            loss.backward()
            state = state.detach()
    report = well(bp.explain(rec))
    (note,) = noted(report, "along `state.detach()`")
    golden("explain", note)
    assert kinds(bp.explain(rec, "state#1")) == ["detach"]
    path = tmp_path / "recording.bp"
    rec.save(path)
    assert str(bp.explain(bp.load(path))) == str(report)


def test_a_choice_by_positions_is_a_note_where_what_it_is_made_of_is_trained():
    def f(x, codes):
        z = x * 2
        d = torch.cdist(z, codes)
        k = d.argmin(1)
        q = codes[k]
        return ((z - q) ** 2).sum()

    rec = bp.probe(f)(torch.ones(3, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert bp.explain(rec).ok, str(bp.explain(rec))
    assert noted(bp.explain(rec), "to 'd': intended?")
    assert kinds(bp.explain(rec, "d")) == ["index"]


def test_a_cut_is_a_finding_where_one_leaf_behind_it_is_lost_though_it_has_no_entry():
    lost, net, w = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1), leaf(1.0, 2.0)
    with bp.probe() as rec:
        h = lost(torch.ones(1, 2)) * w
        d = h.detach()
        loss = net(d * w).sum()
        loss.backward()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.source.text) == ("detach", "d = h.detach()")


def test_leaves_behind_a_backward_that_gives_none_are_not_reached():
    GivesNone = custom("GivesNone", lambda value: value * 2, lambda gradient, value: None)

    w = leaf(1.0, 2.0)
    with bp.probe() as rec:
        u = w * 3
        d = u.detach()
        loss = (GivesNone.apply(w) + d).sum()
        loss.backward()
    assert "detach" in kinds(bp.explain(rec)), str(bp.explain(rec))


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_reentrant_checkpoint_hides_may_be_lost(reentrant):
    hidden, x = leaf(1.0, 2.0), leaf(1.0, 1.0)
    with bp.probe() as rec:
        u = torch.utils.checkpoint.checkpoint(lambda value: hidden * value, x, use_reentrant=reentrant)
        d = u.detach()
        loss = (d * x).sum()
        loss.backward()
    assert kinds(bp.explain(rec))[:1] == ["detach"]


def test_what_is_cut_off_in_a_line_whose_result_has_its_gradient_is_found_though_it_is_not_recorded():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    with bp.probe() as rec:
        loss = second(torch.tanh(first(torch.ones(2, 3)).detach())).sum()
        loss.backward()
    (finding,) = bp.explain(rec).findings
    assert (finding.kind, finding.name) == ("detach", "first.weight")
    golden("explain", finding)


def test_targets_that_a_model_gave_before_it_was_frozen_are_noted_where_they_are_cut_off():
    """As in style transfer: the features of the target are computed while the weights still require a gradient."""
    weight, image = leaf(2.0, 3.0), leaf(1.0, 4.0)
    with bp.probe() as rec:
        features = (weight * 3).square()
        target = features.detach()
        weight.requires_grad_(False)
        loss = ((image * weight) - target).square().sum()
        loss.backward()
    golden("explain", well(bp.explain(rec)))


def test_a_target_stays_a_finding_while_the_weights_behind_it_require_a_gradient():
    weight, image = leaf(2.0, 3.0), leaf(1.0, 4.0)
    with bp.probe() as rec:
        features = (weight * 3).square()
        target = features.detach()
        loss = (image - target).square().sum()
        loss.backward()
    assert kinds(bp.explain(rec)) == ["detach"]


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.clamp_(0, 0.5),
        lambda w: torch.nn.init.normal_(w),
        lambda w: w.copy_(torch.ones(2)),
        lambda w: w.mul_(2).add_(1),
        lambda w: torch.nn.init.zeros_(w),
    ],
)
def test_a_leaf_that_is_written_before_it_is_used_is_used_as_it_was_written(write):
    """An initialisation, or an image that is clamped: what was there before went into nothing, and misses nothing."""
    w = leaf(3.0, 4.0)
    with bp.probe() as rec:
        p = w
        with torch.no_grad():
            write(p)
        loss = (p * 3).square().sum()
        loss.backward()
    assert rec["w#1"].status == "ok"
    assert [edge.name for edge in rec["loss"].inputs] == ["w#1"]
    well(bp.explain(rec))


def test_each_step_of_a_block_leads_back_to_the_weight_that_it_used():
    w = leaf(3.0, 4.0)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with bp.probe() as rec:
        for _ in range(3):
            loss = (w * 3).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [rec[f"loss#{k}"].inputs[0].name for k in range(3)] == ["w#0", "w#1", "w#2"]


def test_a_new_leaf_of_the_same_name_is_cut_off_all_the_same():
    x = leaf(3.0, 4.0)
    with bp.probe() as rec:
        y = x
        y = y.detach().requires_grad_()
        loss = (y * 3).square().sum()
        loss.backward()
    assert kinds(bp.explain(rec)) == ["detach"]


class Target(torch.nn.Module):
    def __init__(self, given):
        super().__init__()
        self.target = features(given).detach()

    def forward(self, given):
        return (features(given) - self.target).square().mean()


def features(given):
    found = given.square()
    return found


def test_what_a_module_is_given_while_a_target_is_made_is_no_leaf():
    """Nothing that is recorded leads to it: it is computed by what has no name, of weights that are frozen later."""
    net, image = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), leaf(1.0, 4.0)
    with bp.probe() as rec:
        style = Target(net(torch.ones(2)))
        net.requires_grad_(False)
        loss = style(net(image))
        loss.backward()
    assert rec["/__init__/features:given"].leaves_reached
    well(bp.explain(rec))


def test_versions_of_a_weight_before_and_after_the_one_that_was_used_are_not_called_unused():
    w = leaf(3.0, 4.0)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with bp.probe() as rec:
        torch.nn.init.uniform_(w)
        loss = (w * 3).square().sum()
        loss.backward()
        optimizer.step()
    assert [rec[f"w#{k}"].status for k in range(3)] == ["not_connected", "ok", "not_connected"]
    assert not noted(well(bp.explain(rec)), "not used")


NET = torch.nn.Linear(2, 2)


def observed():
    return np.ones(2, np.float32)


class Settings:
    choices = 2


def test_numbers_of_python_and_numpy_are_not_said_to_be_cut_off():
    settings = Settings()
    with bp.probe() as rec:
        state = observed()
        s = torch.from_numpy(state).unsqueeze(0)
        action = torch.tensor([[random.randrange(2)]])
        t = torch.randint(0, settings.choices, (2,)).long()
        loss = NET(s).gather(1, action).sum() + NET(s)[0][t].sum()
        loss.backward()
    assert not noted(well(bp.explain(rec)), "cut off")


def test_what_a_line_cuts_off_at_each_turn_is_noted_once():
    with bp.probe() as rec:
        loss = torch.zeros(())
        for _ in range(3):
            target = torch.tensor(NET(torch.ones(2)).tolist())
            action = NET(torch.ones(2)).argmax()
            loss = loss + (NET(torch.ones(2)) - target)[action].square().sum()
        loss.backward()
    first, second = noted(well(bp.explain(rec)), "is not recorded")
    golden("explain", first)
    assert first.endswith("(3 times)")
    assert "cut off (index) at 'action" in second


def test_a_network_of_which_positions_are_taken_is_noted():
    with bp.probe() as rec:
        action = NET(torch.ones(2)).argmax()
        loss = NET(torch.ones(2))[action]
        loss.backward()
    golden("explain", well(bp.explain(rec)))


def test_parameters_that_get_a_name_after_backward_are_not_said_to_lack_a_backward():
    net = torch.nn.Linear(2, 2)
    with bp.probe() as rec:
        loss = net(torch.ones(2)).sum()
        loss.backward()
        for p in net.parameters():
            p.data.add_(p.grad.data, alpha=-0.1)
    report = well(bp.explain(rec))
    assert not noted(report, "no backward")
    (finding,) = bp.explain(rec, "p#0").findings
    assert (finding.kind, finding.name) == ("backward_not_run", "p#0")
    golden("explain", finding)


def test_a_first_state_without_a_history_loses_nothing_where_states_are_detached():
    """As in truncated backpropagation: the first state has the dtype of a weight, and nothing else of it."""
    net = torch.nn.RNNCell(2, 2)

    def repackaged(h):
        return h.detach()

    with bp.probe() as rec:
        weight = next(net.parameters())
        hidden = weight.new_zeros(1, 2)
        hidden = repackaged(hidden)
        hidden = net(torch.ones(1, 2), hidden)
        loss = hidden.sum()
        loss.backward()
    well(bp.explain(rec))


def test_what_is_detached_beside_is_no_question():
    torch.manual_seed(0)
    made, judge = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    with bp.probe() as rec:
        fake = made(torch.ones(1, 2))
        of_judge = judge(fake.detach()).sum()
        of_judge.backward()
        loss = judge(fake).sum()
        loss.backward()
    (note,) = noted(well(bp.explain(rec)), "fake.detach()")
    assert note.endswith("to 'fake': it is detached there")


def test_what_a_number_is_made_of_is_what_to_use():
    net, total = torch.nn.Linear(2, 3), 0.0
    with bp.probe() as rec:
        total += torch.sum(net(torch.ones(1, 2))).item()
        loss = torch.tensor(total, requires_grad=True)
        loss.backward()
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.name) == ("number", "net.weight")
    golden("explain", found)

    def f(x):
        return x * (x * 2).sum().item()

    (note,) = bp.explain(bp.probe(f, cotangent=torch.ones(2))(leaf(1.0, 2.0)), "x").notes[:1]
    assert "(x * 2).sum().item()" in note


def test_what_is_computed_from_positions_of_a_differentiated_value_is_not_frozen():
    net = torch.nn.Linear(2, 3)
    with bp.probe() as rec:
        chances = net(torch.ones(4, 2)).softmax(-1)
        drawn = torch.distributions.Categorical(chances).sample()
        loss = (drawn.float() - 1).pow(2).mean()
    assert rec["loss"].status == "detached"


def test_an_earlier_version_that_is_frozen_is_no_note():
    with bp.probe() as rec:
        w = leaf(1.0, 2.0)
        out = torch.zeros(2)
        out[0] = w.sum()
        loss = out.sum()
        loss.backward()
    golden("explain", bp.explain(rec))


def test_what_an_error_has_named_is_not_asked_about_again():
    with pytest.raises(RuntimeError), bp.probe() as rec:
        w = leaf(1.0, 2.0)
        hit = (w > 1.5).float()
        loss = hit.sum()
        loss.backward()
    report = bp.explain(rec)
    assert "w > 1.5" in str(report.findings[0]) and not noted(report, "intended?")


def test_a_product_with_a_name_is_not_a_scaled_loss():
    with bp.probe() as rec:
        w = leaf(3.0)
        y = (w * w).sum()
        loss = 2 * y
        loss.backward()
    assert rec.notes == ()


def test_the_norm_of_a_gradient_is_not_said_to_be_a_shape():
    p = leaf(1.0, 2.0)
    with bp.probe() as rec:
        loss = (p * p).sum()
        loss.backward()
        scale = 1.0 / p.grad.norm()
    golden("explain", rec["scale"].reason)


def test_counts_of_one_are_singular():
    with bp.probe() as rec:
        w = leaf(1.0)
        w.backward()
    golden("health", bp.health(rec))


def test_what_is_not_used_is_no_cause_of_what_else_is_not_used():
    def program(a, b, c):
        return (a * 2).sum()

    (finding,) = bp.explain(bp.probe(program)(*(torch.ones(2, requires_grad=True) for _ in range(3)))).findings
    assert finding.kind == "unused"
    assert finding.consequence == "no gradient comes to b, c"


def test_single_gradients_of_a_training_that_are_0():
    """Weights of 0 give the layer before a gradient of 0: all gradients are there, and most of them are 0."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def notes():
        with bp.probe(net) as rec:
            (net(torch.ones(4, 2)) - 1).square().mean().backward()
            optimizer.step()
        report = bp.explain(rec)
        assert report.ok
        return report.notes

    assert notes() == ("the gradient of '0.weight' and 2 more is exactly 0 in what was recorded",)
    torch.nn.init.ones_(net[0].weight)
    assert notes() == ("the gradient of '0.weight' and 1 more is exactly 0 in what was recorded",)
