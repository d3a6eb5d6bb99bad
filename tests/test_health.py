"""Each problem is found by its kind, and none in healthy models."""

import logging

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import Parts, round_trip, well
from goldens import golden
from small_models import small_gpt2


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


ROWS = torch.linspace(-2, 2, 64 * 32).reshape(64, 32).sin()


def stack(layers, activation, *, gain=1.0, bias=0.0, width=32):
    parts = []
    for _ in range(layers):
        linear = nn.Linear(width, width)
        if activation is nn.ReLU:
            nn.init.kaiming_normal_(linear.weight)
        else:
            nn.init.xavier_normal_(linear.weight)
        linear.weight.data *= gain
        linear.bias.data.fill_(bias)
        parts += [linear, activation()]
    return nn.Sequential(*parts, nn.Linear(width, 1))


def examined(model, x=ROWS):
    return bp.health(bp.probe(model, of=lambda y: y.square().mean())(x))


def kinds(report):
    return {finding.kind for finding in report.findings}


# the healthy


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
@pytest.mark.parametrize("layers", [2, 12])
def test_gpt2_is_well(layers, select):
    model, tokens = small_gpt2(layers)
    report = well(bp.health(bp.probe(model, select, of="loss")(tokens, labels=tokens)))
    assert report.heading.startswith("no problems found: ")


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
@pytest.mark.parametrize("family", ["Bert", "Llama", "T5"])
def test_models_of_transformers_are_well(family, select):
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    small = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
    made = {
        "Bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=200, **small)),
        "Llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=200, **small)),
        "T5": lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=200, d_model=64, d_ff=128, num_layers=4, num_heads=4, d_kv=16, decoder_start_token_id=0
            )
        ),
    }
    tokens = torch.randint(0, 200, (4, 16))
    well(bp.health(bp.probe(made[family](), select, of="loss")(tokens, labels=tokens)))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_initialised_well(activation):
    well(examined(stack(10, activation)))


def test_images_are_well():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, 1)
    )
    well(examined(model, torch.randn(8, 3, 8, 8)))


def test_half_precision_of_good_size_is_well():
    well(examined(stack(3, nn.ReLU).half(), ROWS.half()))


# the ill


def test_dead_units():
    report = examined(stack(1, nn.ReLU, bias=-50.0))
    dead = report.of_kind("dead")[0]
    assert dead.name == "1"
    golden("health", dead)


def test_a_few_dead_units_are_no_finding():
    model = stack(1, nn.ReLU)
    model[0].bias.data[:10] = -50.0
    assert "dead" not in kinds(examined(model))


def test_dead_channels_of_images():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 1))
    model[0].bias.data[:5] = -50.0
    (dead,) = examined(model, torch.randn(8, 3, 8, 8)).of_kind("dead_units")
    assert dead.headline == "5 of 8 units of '1' are dead"


def test_equal_rows_are_one_sample():
    for seed in range(20):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
        assert "dead" not in kinds(examined(model, torch.randn(1, 16).repeat(8, 1)))


def test_a_loss_that_is_zero_is_no_dead_layer():
    def hinge(s, y):
        losses = torch.relu(1 - s * y)
        return losses.mean()

    report = bp.health(bp.probe(hinge)(torch.linspace(5.0, 9.0, 16)[:, None], torch.ones(16, 1)))
    assert "dead" not in kinds(report)


def test_growth_of_small_gradients_is_no_explosion():
    """The gradient is below 1 everywhere, as with a loss at each depth whose weight shrinks."""

    class Heads(Parts):
        def forward(self, x):
            loss = 0.0
            for i, layer in enumerate(self.h):
                x = torch.tanh(layer(x))
                loss = loss + x.mean() * 10.0**-i
            return loss

    torch.manual_seed(0)
    model = Heads(h=nn.ModuleList([nn.Linear(32, 32) for _ in range(8)]))
    assert bp.health(bp.probe(model)(torch.randn(8, 32))).ok


def test_one_row_is_too_few_to_call_a_unit_dead():
    assert "dead" not in kinds(examined(stack(1, nn.ReLU, bias=-50.0), ROWS[:1]))


def test_saturated_tanh():
    saturated = examined(stack(1, nn.Tanh, gain=200.0)).of_kind("saturated")
    assert saturated[0].headline == "'1' is saturated"
    assert "|input of tanh| > 9.5" in saturated[0].facts[0]


def test_saturated_sigmoid():
    assert examined(stack(1, nn.Sigmoid, gain=400.0)).of_kind("saturated")[0].facts[1].endswith("beyond ±19")


def test_a_function_has_dead_units_too():
    def f(x):
        h = torch.relu(x - 100)
        return h.sum()

    report = bp.health(bp.probe(f)(ROWS))
    assert kinds(report) == {"dead", "zero_gradient"}


def test_zero_gradients_begin_somewhere():
    def f(x):
        u = x * 2
        v = torch.round(u)
        return (v * 3).sum()

    (zero,) = bp.health(bp.probe(f)(ROWS)).findings
    assert (zero.kind, zero.name, zero.source.text.strip()) == ("zero_gradient", "u", "v = torch.round(u)")
    golden("health", zero)


def test_zero_local_derivatives():
    rec = bp.probe(lambda x: torch.relu(x * 1).sum() + x.sum(), ["x", "relu()", "return"], partials="full")(
        -ROWS.abs()[0] - 1
    )
    assert "zero_derivative" in kinds(bp.health(rec))


def test_vanishing_over_depth():
    (found,) = examined(stack(20, nn.Sigmoid)).of_kind("vanishing")
    assert found.name == "0"
    golden("health", found)


def test_vanishing_slowly():
    (found,) = examined(stack(20, nn.Tanh, gain=0.4)).of_kind("vanishing")
    assert found.name == "0"
    golden("health", found)


def test_exploding_over_depth():
    report = examined(stack(10, nn.ReLU, gain=5.0))
    found = report.of_kind("exploding")
    golden("health", found[0])
    golden("health", *report.of_kind("large_gradients"))


def test_a_loop_has_layers():
    def f(x):
        h = x
        for _ in range(8):
            h = torch.sigmoid(h) * 0.5
        return h.sum()

    assert kinds(bp.health(bp.probe(f)(ROWS))) == {"vanishing"}


def test_underflow_in_half_precision():
    model = stack(3, nn.ReLU).half()
    report = bp.health(bp.probe(model, of=lambda y: (y.float() * 1e-6).sum())(ROWS.half()))
    (found,) = report.of_kind("underflow")
    assert found.headline.endswith("underflow in float16")
    assert "6.1e-05 (IEEE 754)" in found.facts[0]


def test_gradients_flushed_to_zero():
    def f(x):
        y = x * 0.001
        return (y.float() * 1e-6).sum()

    (found,) = bp.health(bp.probe(f)(ROWS.half())).of_kind("underflow")
    assert found.name == "y"
    golden("health", found)


# the scale


def slow(scale):
    """20 layers in a block, with the loss scaled as a GradScaler does."""
    model = stack(20, nn.Tanh, gain=0.4)
    with bp.probe(model) as rec:
        loss = model(ROWS).square().mean()
        (loss * scale).backward()
    return rec


def test_a_ratio_needs_no_scale_of_the_loss_and_a_magnitude_does():
    rec = slow(1024.0)
    assert rec.record.scales == (None,)
    report = bp.health(rec)
    assert kinds(report) == {"vanishing"}
    golden("health", report)


@pytest.mark.parametrize("scale", [1 / 3, 0.5, 65536.0])
def test_a_number_that_a_line_multiplies_by_is_known(scale):
    weight = torch.ones(3, requires_grad=True)
    with bp.probe() as rec:
        loss = weight.square().mean() * scale
        loss.backward()
    assert rec.record.scales == ((scale,) if scale > 1 else ())
    assert bool(rec.notes) == (scale > 1)
    assert not bp.health(rec).notes


def test_a_saved_number_is_not_asked_for_where_that_runs_a_hook():
    unpacked = []
    weight, scale = torch.ones(3, requires_grad=True), torch.tensor(4.0)

    def unpack(saved):
        unpacked.append(saved)
        return saved

    def step():
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
            loss = weight.square().mean() * scale
        loss.backward()
        return len(unpacked)

    without = step()
    with bp.probe() as rec:
        step()
    assert len(unpacked) == 2 * without
    assert rec.record.scales == (None,)


def test_a_scale_that_is_known_is_taken_out():
    model = stack(20, nn.Tanh, gain=0.4)
    x = ROWS.clone().requires_grad_()
    with bp.probe(nonfinite=False) as rec:
        h = x
        for layer in model:
            h = layer(h)
        loss = h.square().mean()
        (loss * 1024.0).backward()
    assert rec.record.scales == (1024.0,)


# recordings


def test_a_loaded_recording_is_judged_alike(tmp_path):
    rec = bp.probe(stack(4, nn.ReLU, bias=-50.0), of=lambda y: y.sum())(ROWS)
    assert str(bp.health(round_trip(rec, tmp_path, to="numpy"))) == str(bp.health(rec))


def test_what_is_not_finite_is_left_out():
    report = bp.health(bp.probe(lambda x: torch.log(x - x).sum())(ROWS))
    assert report.ok
    golden("health", report)


def test_only_recordings_have_a_health():
    with pytest.raises(bp.BadOption, match="health takes a recording, not an int"):
        bp.health(3)


def test_the_gradient_of_a_leaf_explodes_in_every_form():
    w = nn.Parameter(torch.ones(5))
    x = torch.ones(5)
    with bp.probe() as rec:
        loss = (w * x * 1e6).pow(2).mean()
        loss.backward()
    for one in (rec, bp.probe(lambda x, w: (w * x * 1e6).pow(2).mean())(x, w)):
        (found,) = bp.health(one).of_kind("large_gradients")
        assert found.name == "w"
        golden("health", found)
    with bp.probe() as rec:
        loss = (w * x).pow(2).mean()
        loss.backward()
    assert bp.health(rec).ok


class Policy(nn.Module):
    """As in REINFORCE: one state at a time, and dropout, so that at times no unit is active."""

    def __init__(self):
        super().__init__()
        self.hidden, self.scores = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = torch.relu(self.hidden(x))
        return self.scores(h)


def one_by_one(policy, states, idle):
    """A step over states one by one, at some of which all units are idle."""
    with torch.no_grad():
        policy.hidden.weight.abs_()
        policy.hidden.bias.zero_()
    with bp.probe(policy) as rec:
        loss = sum(policy(-state if at in idle else state).square().sum() for at, state in enumerate(states))
        loss.backward()
    return bp.health(rec)


def test_a_sample_at_which_no_unit_is_active_is_none_of_many():
    well(one_by_one(Policy(), ROWS[:12, :4].abs(), idle=(5, 9)))


def test_most_samples_at_which_no_unit_is_active_are_found():
    report = one_by_one(Policy(), ROWS[:12, :4].abs(), idle=range(7))
    assert {finding.kind for finding in report.findings} == {"zero_gradient"}


def test_one_branch_of_two_that_nothing_comes_back_from_is_found():
    encode = Policy()
    with bp.probe(encode) as rec:
        loss = (encode(ROWS[:8, :4]).square() + 0 * encode(ROWS[8:16, :4])).sum()
        loss.backward()
    assert "zero_gradient" in kinds(bp.health(rec))


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_step_of_a_recurrence_that_lets_nothing_through_is_found(at):
    x = torch.ones(3, requires_grad=True)
    with bp.probe() as rec:
        h = x
        for t in range(8):
            h = torch.relu(h * 1.1 if t != at else -h)
            loss = h.sum() + x.sum()
        loss.backward()
    assert "zero_gradient" in kinds(bp.health(rec))


def test_parameters_that_a_block_by_itself_has_no_entries_for_are_not_said_to_be_well():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(net[0].bias, -100.0)  # dead
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step():
        loss = net(torch.randn(16, 3)).square().mean()
        loss.backward()
        optimizer.step()

    with bp.probe() as by_itself:
        step()
    golden("health", bp.health(by_itself))
    with bp.probe(net, "**") as around:
        step()
    report = bp.health(around)
    assert report.of_kind("dead") and not any("no entry" in note for note in report.notes)
