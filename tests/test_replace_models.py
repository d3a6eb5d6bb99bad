"""``replace=`` and ``replace_grad=`` in models of PyTorch, against forward hooks and tensor hooks by hand, bitwise."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

import backprobe as bp


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        hidden = self.act(self.norm(self.conv(x)))
        return hidden + x


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)) for _ in range(3))

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        top = weights.topk(2, dim=-1).indices
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            chosen = (top == at).any(-1)
            out[chosen] = out[chosen] + expert(x[chosen]) * weights[chosen][:, at : at + 1]
        return out


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 5, num_layers=2, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out)


def gpt2():
    config = GPT2Config(
        n_layer=3,
        n_head=2,
        n_embd=16,
        vocab_size=50,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config)


def bert():
    config = BertConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=16,
        intermediate_size=32,
        vocab_size=50,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


IDS = torch.tensor([[7, 3, 19, 4, 11], [1, 2, 3, 4, 5]])
IMAGES, ROWS, STEPS = (
    torch.randn(size, generator=torch.Generator().manual_seed(at))
    for at, size in enumerate([(2, 3, 5, 5), (6, 4), (2, 3, 4)])
)

MODELS = {
    "gpt2": (gpt2, IDS, ["transformer.h.1.mlp", "transformer.h.0", "transformer.h.1.attn:return.0"]),
    "bert": (bert, IDS, ["bert.encoder.layer.0.output", "bert.encoder.layer.1.attention.self:return.0"]),
    "lstm": (Recurrent, STEPS, ["lstm:return.0"]),
    "resnet": (lambda: nn.Sequential(Residual(), Residual()), IMAGES, ["0.conv", "0.norm", "0", "1.act"]),
    "mixture": (Experts, ROWS, ["router", "experts.1", "experts.2.0"]),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), STEPS, ["linear1", "norm1"]),
}
CASES = [(name, path) for name, (_, _, paths) in MODELS.items() for path in paths]

FUNCTIONS = {
    "zeros": torch.zeros_like,
    "doubled": lambda value: value * 2,
    "ones": torch.ones_like,
}


def made(name):
    torch.manual_seed(0)
    make, given, _ = MODELS[name]
    return make(), given


def output(result):
    return getattr(result, "logits", result)


def summed(result):
    return (output(result) * 0.37).sin().sum()


def leaf_of(path):
    return (path.split(":")[0], int(path.rpartition(".")[2])) if ":" in path else (path, None)


def with_hook(model, given, path, hook):
    """The output, and the gradients of the parameters, with a forward hook by hand on one module's output."""
    module, leaf = leaf_of(path)

    def exchange(_, args, returned):
        if leaf is None:
            return hook(returned)
        return (*returned[:leaf], hook(returned[leaf]), *returned[leaf + 1 :])

    handle = model.get_submodule(module).register_forward_hook(exchange)
    result = summed(model(given))
    handle.remove()
    names, parameters = zip(*model.named_parameters(), strict=True)
    return result.detach(), dict(zip(names, torch.autograd.grad(result, parameters, allow_unused=True), strict=True))


def assert_equal(rec, result, gradients):
    assert torch.equal(rec["of()"].value, result)
    for name, gradient in gradients.items():
        own = rec[name].grad_or_none
        assert (own is None) == (gradient is None), name
        assert own is None or torch.equal(own, gradient), name


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name, path", CASES)
def test_a_function_of_a_modules_output(name, path, function):
    model, given = made(name)
    what = FUNCTIONS[function]
    rec = bp.probe(model, of=summed, replace={path: what})(given)
    model, given = made(name)
    assert_equal(rec, *with_hook(model, given, path, what))
    replaced = [entry for entry in rec.values() if entry.replaced]
    assert len(replaced) == 1
    assert torch.equal(what(replaced[0].original), replaced[0].value)


@pytest.mark.parametrize("name, path", CASES)
def test_a_value_of_another_run(name, path):
    model, given = made(name)
    entry = bp.probe(model, [path], of=summed)(given if name == "mixture" else given.flip(0))[path]
    model, given = made(name)
    rec = bp.probe(model, of=summed, replace={path: entry})(given)
    assert [one for one in rec.values() if one.replaced and torch.equal(one.value, entry.value)]
    model, given = made(name)
    assert_equal(rec, *with_hook(model, given, path, lambda value: entry.value))


@pytest.mark.parametrize("name, path", CASES)
def test_a_gradient_of_a_modules_output(name, path):
    def clamped(gradient):
        return gradient.clamp(-1e-3, 1e-3)

    def hooked(value):
        value.register_hook(clamped)
        return value

    model, given = made(name)
    rec = bp.probe(model, of=summed, replace_grad={path: clamped})(given)
    model, given = made(name)
    assert_equal(rec, *with_hook(model, given, path, hooked))
    changed = [entry for entry in rec.values() if entry.replaced_grad]
    assert len(changed) == 1
    assert changed[0].grad.abs().max() <= 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_in_a_block_as_by_hand(name):
    model, given = made(name)
    path = MODELS[name][2][0]
    with bp.probe(model, replace={path: FUNCTIONS["doubled"]}, replace_grad={path: lambda g: g * 3}) as rec:
        summed(model(given)).backward()
    own = {at: parameter.grad for at, parameter in model.named_parameters()}

    def both(value):
        new = value * 2
        new.register_hook(lambda gradient: gradient * 3)
        return new

    model, given = made(name)
    result, gradients = with_hook(model, given, path, both)
    assert any(entry.replaced and entry.replaced_grad for entry in rec.values())
    for at, gradient in gradients.items():
        assert (own[at] is None) == (gradient is None)
        assert own[at] is None or torch.equal(own[at], gradient), at


def test_a_local_of_a_forward():
    model, _ = made("gpt2")
    name = "transformer.h.1.attn:attn_output#0"
    rec = bp.probe(model, ["**", name], of="loss", replace={name: lambda value: value * 0})(IDS, labels=IDS)
    assert rec[name].replaced
    bias = model.transformer.h[1].attn.c_proj.bias
    mixed = {"transformer.h.1.attn.c_proj": lambda value: value * 0 + bias}
    ablated = bp.probe(model, of="loss", replace=mixed)(IDS, labels=IDS)
    assert torch.allclose(rec.result.loss, ablated.result.loss, 1e-7, 1e-7)


def test_a_module_that_runs_twice_is_replaced_by_its_count():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    model, x = Twice(), torch.ones(1, 2)
    rec = bp.probe(model, of=summed, replace={"layer#0": torch.ones_like})(x)
    assert torch.equal(rec["layer#1"].value, model.layer(x).detach())
    assert [entry.name for entry in rec.values() if entry.replaced] == ["layer#0"]
    both = bp.probe(model, of=summed, replace={"layer": torch.ones_like})(x)
    assert torch.equal(output(both.result).detach(), x)


def test_hooks_of_the_program_come_before():
    model, x = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), torch.ones(1, 2)
    model[0].register_forward_hook(lambda module, args, returned: returned * 0 + 5)
    rec = bp.probe(model, of=summed, replace={"0": lambda value: value + 1})(x)
    assert torch.equal(rec["0"].original, torch.full((1, 2), 5.0))
    assert torch.equal(rec["0"].value, torch.full((1, 2), 6.0))


def test_a_model_itself_and_a_module_with_two_paths():
    shared = nn.Linear(2, 2)
    model, x = nn.Sequential(shared, shared), torch.ones(1, 2)
    rec = bp.probe(model, of=summed, replace={":return": torch.ones_like})(x)
    assert torch.equal(rec.result.detach(), x)
    rec = bp.probe(model, of=summed, replace={"1#0": torch.ones_like})(x)
    assert sum(entry.replaced for entry in rec.values()) == 1


def test_a_parameter_is_exchanged_for_the_run_alone():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), torch.ones(4, 2)
    held = model[0].weight
    before = held.detach().clone()
    rec = bp.probe(model, of=summed, replace={"0.weight": lambda weight: weight * 2})(x)
    assert model[0].weight is held
    assert torch.equal(held, before)
    assert isinstance(model[0].weight, nn.Parameter)
    assert torch.equal(rec["0.weight"].value, before * 2)
    assert torch.equal(rec["0"].value, nn.functional.linear(x, before * 2, model[0].bias).detach())
    with pytest.raises(ZeroDivisionError):
        bp.probe(model, of=lambda result: 1 // 0, replace={"0.weight": torch.zeros_like})(x)
    assert model[0].weight is held
    with pytest.raises(RuntimeError):
        bp.probe(model, of=summed, replace={"0.weight": torch.zeros_like})(torch.ones(4, 3))
    assert model[0].weight is held
    with pytest.raises(bp.Unsupported, match=r"the parameter '0\.weight' cannot be replaced in a block"):
        with bp.probe(model, replace={"0.weight": torch.zeros_like}):
            pass


def test_a_module_that_is_not_there_is_refused_before_anything_runs():
    ran = []
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model.register_forward_pre_hook(lambda *_: ran.append(1))
    for name in ("3", "0.wieght", "3:x", "layers.*.mlp"):
        with pytest.raises(bp.NothingMatched, match=f"'{name}' matches nothing in Sequential".replace("*", r"\*")):
            bp.probe(model, of=summed, replace={name: torch.zeros_like})(torch.ones(1, 2))
        with pytest.raises(bp.NothingMatched):
            with bp.probe(model, replace={name: torch.zeros_like}):
                pass
    assert ran == []


def test_a_local_that_never_comes_up_is_a_note_in_a_block():
    model, x = nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2)
    with pytest.raises(bp.NothingMatched, match="'0:nothing' matches nothing"):
        bp.probe(model, of=summed, replace={"0:nothing": torch.zeros_like})(x)
    with bp.probe(model, replace={"0:nothing": torch.zeros_like}) as rec:
        summed(model(x)).backward()
    assert rec.notes == ("replace has '0:nothing', which never came up: nothing was replaced",)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_what_runs_compiled_is_refused_at_once():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    model = nn.Sequential(scripted)
    with pytest.raises(bp.Unsupported, match=r"'0\.1' runs compiled"):
        bp.probe(model, of=summed, replace={"0.1": torch.zeros_like})(torch.ones(1, 2))

    @torch.compile(backend="eager")
    def fixed(x):
        u = x * 2
        return u

    def calling(x):
        return fixed(x).sum()

    with pytest.raises(bp.Unsupported, match="'fixed' runs compiled"):
        bp.probe(calling, replace={"/fixed:u": torch.zeros_like})(torch.ones(2))


def test_a_module_with_several_tensors_needs_a_leaf():
    model, given = made("gpt2")
    with pytest.raises(bp.BadOption, match=r"\.attn' holds several floating tensors") as refused:
        bp.probe(model, of=summed, replace={"transformer.h.1.attn": torch.zeros_like})(given)
    assert "replace={'transformer.h.1.attn:return.0': ...}" in refused.value.next


def test_nothing_is_left_behind():
    model, given = made("gpt2")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    plain = model(given).logits
    bp.probe(
        model,
        of=summed,
        replace={"transformer.h.*.mlp": torch.zeros_like},
        replace_grad={"transformer.h.1": torch.zeros_like},
    )(given)
    assert torch.equal(model(given).logits, plain)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())
    assert all(not module._forward_hooks and not module._backward_hooks for module in model.modules())
    assert all(not parameter._backward_hooks and parameter.grad is None for parameter in model.parameters())


def test_a_steering_vector_is_learnt_as_by_hand():
    def learn(run):
        model, given = made("gpt2")
        model.requires_grad_(False)
        vector = torch.zeros(16, requires_grad=True)
        optimizer = torch.optim.Adam([vector], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            run(model, given, vector)
            optimizer.step()
        return vector.detach()

    def probed(model, given, vector):
        with bp.probe(model, replace={"transformer.h.1": lambda hidden: hidden + vector}):
            summed(model(given)).backward()

    def hooked(model, given, vector):
        handle = model.transformer.h[1].register_forward_hook(lambda module, args, returned: returned + vector)
        summed(model(given)).backward()
        handle.remove()

    learnt = learn(probed)
    assert learnt.abs().max() > 0.1
    assert torch.equal(learnt, learn(hooked))
