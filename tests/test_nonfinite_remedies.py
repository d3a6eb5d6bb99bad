"""Remedies for NaN and Inf: each is put into the program as it is written, and NaN and Inf are gone."""

import pytest
import torch
from torch import tensor

import backprobe as bp
from goldens import golden
from remedied import applied, explained, function, remedy_of

INF = float("inf")


def program(body, arguments="x"):
    """A function of these lines, the last of which it returns summed up."""
    *lines, last = body.split("; ")
    return f"def f({arguments}):\n" + "".join(f"    {line}\n" for line in [*lines, f"y = {last}", "return y.sum()"])


CHAINS = [
    ("p = torch.softmax(x, dim=0); torch.log(p)", [200.0, 0.0], "torch.log_softmax(x, dim=0)"),
    ("p = torch.softmax(x, 0); -torch.log(p[1])", [200.0, 0.0], "torch.log_softmax(x, dim=0)[1]"),
    ("p = x.softmax(-1); p.log()", [[0.0, 300.0]], "torch.log_softmax(x, dim=-1)"),
    (
        "p = torch.softmax(x, dim=1); torch.log(p[torch.arange(1), torch.tensor([1])])",
        [[200.0, 0.0]],
        "torch.log_softmax(x, dim=1)[torch.arange(1), torch.tensor([1])]",
    ),
    (
        "p = torch.softmax(x, dim=1); torch.log(p.gather(1, torch.zeros(1, 1, dtype=torch.int64)))",
        [[0.0, 200.0]],
        "torch.log_softmax(x, dim=1).gather(1, torch.zeros(1, 1, dtype=torch.int64))",
    ),
    ("p = torch.sigmoid(x); torch.log(p)", [-200.0, 0.0], "torch.nn.functional.logsigmoid(x)"),
    ("p = torch.sigmoid(x); torch.log(1 - p)", [200.0, 0.0], "torch.nn.functional.logsigmoid(-x)"),
    ("torch.log(1 - torch.sigmoid(x))", [200.0, 0.0], "torch.nn.functional.logsigmoid(-x)"),
    ("e = torch.exp(x); e / e.sum()", [200.0, 0.0], "torch.softmax(x, dim=0)"),
    ("e = torch.exp(x); s = torch.sum(e, dim=1, keepdim=True); e / s", [[200.0, 0.0]], "torch.softmax(x, dim=1)"),
    ("torch.log(1 + torch.exp(x))", [200.0, 0.0], "torch.nn.functional.softplus(x)"),
    ("e = x.exp(); torch.log1p(e)", [200.0, 0.0], "torch.nn.functional.softplus(x)"),
    ("torch.log(torch.exp(x) + 1.0)", [200.0, 0.0], "torch.nn.functional.softplus(x)"),
    ("v = torch.exp(x); torch.sqrt(v)", [-300.0, 0.0], "torch.exp(x / 2)"),
    ("torch.sqrt(torch.exp(x * 2))", [-300.0, 0.0], "torch.exp(x * 2 / 2)"),
    ("torch.log(torch.sum(torch.exp(x), dim=0))", [200.0, 0.0], "torch.logsumexp(x, dim=0)"),
    ("1 / (1 + torch.exp(-x))", [-200.0, 0.0], "torch.sigmoid(x)"),
    ("e = torch.exp(x); e / (1 + e)", [200.0, 0.0], "torch.sigmoid(x)"),
    ("(torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))", [200.0, 0.0], "torch.tanh(x)"),
    ("torch.log(torch.cosh(x))", [200.0, 0.5], "x + torch.nn.functional.softplus(-2 * x) - 0.693147"),
    ("torch.log(torch.exp(x))", [200.0, 0.0], "x"),
    ("torch.log1p(-torch.sigmoid(x))", [200.0, 0.0], "torch.nn.functional.logsigmoid(-x)"),
    ("torch.log(1 - torch.softmax(x, dim=0))", [200.0, 0.0], "torch.logsumexp(x.unsqueeze(-2).masked_fill("),
    ("p = torch.softmax(x * 2, -1); torch.log1p(-p)", [[200.0, 0.0, 1.0]], "torch.logsumexp(logits.unsqueeze(-2)"),
    ("p = torch.sigmoid(x); torch.log(p / (1 - p))", [200.0, 0.0], "x"),
    ("torch.sqrt(torch.softmax(x, dim=0))", [200.0, 0.0], "torch.exp(torch.log_softmax(x, dim=0) / 2)"),
    ("torch.sqrt(torch.sigmoid(x))", [-200.0, 0.0], "torch.exp(torch.nn.functional.logsigmoid(x) / 2)"),
    ("torch.log(1 - torch.exp(x))", [-1e-9, -1.0], "torch.log(-torch.expm1(x))"),
    ("torch.log1p(-torch.exp(x))", [-1e-9, -1.0], "torch.log(-torch.expm1(x))"),
    ("torch.log(1 - torch.exp(x))", [0.0, -1.0], "torch.log(-torch.expm1(torch.clamp(x, max=-1e-12)))"),
    (
        "torch.log(1 - torch.tanh(x) ** 2)",
        [20.0, 0.5],
        "2 * (0.6931471805599453 - x - torch.nn.functional.softplus(-2 * x))",
    ),
    ("a = torch.tanh(x); torch.log(1 - a.pow(2))", [20.0, 0.5], "2 * (0.6931471805599453 - x"),
    ("torch.log(1 - torch.tanh(x))", [20.0, 0.5], "0.6931471805599453 - torch.nn.functional.softplus(2 * x)"),
    ("torch.log(1 + torch.tanh(x))", [-20.0, 0.5], "0.6931471805599453 - torch.nn.functional.softplus(-2 * x)"),
    ("torch.log(torch.softmax(x, dim=0).abs())", [200.0, 0.0], "torch.log_softmax(x, dim=0)"),
    ("torch.log(torch.softmax(x, dim=0).clamp(0, 1))", [200.0, 0.0], "torch.log_softmax(x, dim=0)"),
    ("e = x.exp(); e / e.sum(1)[:, None]", [[200.0, 0.0]], "torch.softmax(x, dim=1)"),
    ("e = x.exp(); e / e.sum(1).unsqueeze(1).expand_as(e)", [[200.0, 0.0]], "torch.softmax(x, dim=1)"),
    ("e = x.exp(); s = e.sum(1, keepdim=True); e / s.expand(-1, 2)", [[200.0, 0.0]], "torch.softmax(x, dim=1)"),
    ("torch.exp(x.clamp(-80, 80)) / torch.exp(x).sum(1, keepdim=True)", [[200.0, 0.0]], "torch.softmax(x, dim=1)"),
    ("torch.log(torch.exp(x) - 1)", [100.0, 0.0, 1.0], "x + torch.log(-torch.expm1(-torch.clamp(x, min=1e-12)))"),
    ("torch.log(torch.expm1(x))", [100.0, 1.0], "x + torch.log(-torch.expm1(-torch.clamp(x, min=1e-12)))"),
    (
        "(x - x.mean(0)) / x.std(0)",
        [[1.0, 2.0]],
        "(x - x.mean(0)) / torch.sqrt(torch.var(x, dim=0, correction=0) + 1e-12)",
    ),
    ("torch.log(torch.prod(x))", [1e-30, 1e-30], "torch.sum(torch.log(x))"),
    ("torch.log(torch.cumsum(torch.exp(x), dim=0))", [200.0, 0.0], "torch.logcumsumexp(x, dim=0)"),
    ("hazard = x.exp(); x - torch.log(hazard.cumsum(1))", [[0.0, 200.0]], "torch.logcumsumexp(x, dim=1)"),
    (
        "e = torch.exp(x); -torch.log(e.diagonal() / e.sum(1))",
        [[200.0, 0.0], [0.0, 1.0]],
        "torch.log_softmax(x, dim=1).diagonal()",
    ),
    (
        "e = x.exp(); own = torch.diagonal(e); torch.log(own / e.sum(0))",
        [[200.0, 0.0], [0.0, 1.0]],
        "torch.diagonal(torch.log_softmax(x, dim=0))",
    ),
    ("torch.log(x / (1 - x))", [1.0, 0.5], "torch.logit(torch.clamp(x, 1e-06, 1 - 1e-06))"),
    ("odds = x / (1 - x); odds.log()", [1.0, 0.5], "torch.logit(torch.clamp(x, 1e-06, 1 - 1e-06))"),
    ("torch.sqrt(x ** 2)", [0.0, -2.0], "torch.abs(x)"),
    ("torch.sqrt(x * x)", [0.0, -2.0], "torch.abs(x)"),
    ("x * torch.log(x)", [0.0, 1.0], "torch.log(torch.clamp(x, min=1e-12))"),
]

SINGLE = [
    ("torch.sqrt(x)", [0.0, 1.0], "torch.sqrt(x + 1e-12)"),
    ("torch.sqrt((x ** 2).sum())", [0.0, 0.0], "torch.sqrt((x ** 2).sum() + 1e-12)"),
    ("torch.rsqrt(x)", [0.0, 1.0], "torch.rsqrt(x + 1e-12)"),
    ("torch.std(x, dim=1)", [[1.0], [2.0]], "torch.std(x, dim=1, correction=0)"),
    ("torch.var(x, dim=0)", [[1.0, 2.0]], "torch.var(x, dim=0, correction=0)"),
    ("torch.acos(x)", [1.0, 0.5], "torch.acos(torch.clamp(x, -1 + 1e-06, 1 - 1e-06))"),
    ("torch.asin(x)", [-1.0, 0.5], "torch.asin(torch.clamp(x, -1 + 1e-06, 1 - 1e-06))"),
    ("torch.acos(x)", [1.0000001, 0.5], "torch.acos(torch.clamp(x, -1 + 1e-06, 1 - 1e-06))"),
    ("torch.atanh(x)", [1.0, 0.5], "torch.atanh(torch.clamp(x, -1 + 1e-06, 1 - 1e-06))"),
    ("torch.acosh(x)", [1.0, 2.0], "torch.acosh(torch.clamp(x, min=1 + 1e-06))"),
    ("torch.hypot(x, x)", [0.0, 1.0], "torch.sqrt(x ** 2 + x ** 2 + 1e-12)"),
    ("torch.log(x)", [0.0, 1.0], "torch.log(torch.clamp(x, min=1e-12))"),
    ("torch.log2(x)", [0.0, 1.0], "torch.log2(torch.clamp(x, min=1e-12))"),
    ("torch.log1p(x)", [-1.0, 1.0], "torch.log1p(torch.clamp(x, min=-1 + 1e-06))"),
    ("x / x.sum()", [0.0, 0.0], "torch.where(x.sum() == 0, 0.0, x / torch.where(x.sum() == 0, 1.0, x.sum()))"),
    ("x / x.abs().sum()", [0.0, 0.0], "torch.where(x.abs().sum() == 0, 0.0, x / torch.where("),
    ("d = x - 1; x / d", [1.0, 2.0], "torch.where(d == 0, 0.0, x / torch.where(d == 0, 1.0, d))"),
    ("d = torch.sin(x); 2 / d", [0.0, 1.0], "torch.where(d == 0, 0.0, 2 / torch.where(d == 0, 1.0, d))"),
    ("w = x - x.min(); 2 / w.sum()", [1.0, 1.0], "torch.where(w.sum() == 0, 0.0, 2 / torch.where("),
    ("n = (x ** 2).sum(); x / n", [0.0, 0.0], "torch.where(n == 0, 0.0, x / torch.where(n == 0, 1.0, n))"),
    ("n = (x * x).mean(); x / n", [0.0, 0.0], "torch.where(n == 0, 0.0, x / torch.where(n == 0, 1.0, n))"),
    (
        "k = (x > 5).float(); (x * k).sum() / k.sum()",
        [0.0, 2.0],
        "torch.where(k.sum() == 0, 0.0, (x * k).sum() / torch.where(",
    ),
    ("r = torch.relu(x); x.sum() / r.sum()", [-1.0, -2.0], "torch.where(r.sum() == 0, 0.0, x.sum() / torch.where("),
    ("x / x.exp().sum().log()", [0.0], "torch.where(x.exp().sum().log() == 0, 0.0, x / torch.where("),
    ("m = x > 5; (x * m).sum() / m.sum()", [0.0, 2.0], "(x * m).sum() / torch.clamp(m.sum(), min=1)"),
    (
        "x / x.norm(dim=1, keepdim=True)",
        [[0.0, 0.0], [1.0, 2.0]],
        "x / torch.sqrt(torch.sum(x ** 2, dim=1, keepdim=True) + 1e-12)",
    ),
    ("(x - x.mean()) / x.std()", [2.0, 2.0], "(x - x.mean()) / torch.sqrt(torch.var(x) + 1e-12)"),
    ("x / torch.sqrt((x ** 2).sum())", [0.0, 0.0], "x / torch.sqrt((x ** 2).sum() + 1e-12)"),
    ("n = int(x.sum()); x / n", [0.0, 0.0], "x / max(n, 1)"),
    ("n = len([v for v in x if v > 5]); x.sum() / n", [0.0, 2.0], "x.sum() / max(n, 1)"),
    ("1 / x", [0.0, 2.0], "torch.where(x == 0, 0.0, 1 / torch.where(x == 0, 1.0, x))"),
    ("torch.reciprocal(x)", [0.0, 2.0], "torch.where(x == 0, 0.0, 1 / torch.where(x == 0, 1.0, x))"),
    ("torch.reciprocal(x)", [0.0, -2.0], "torch.where(x == 0, 0.0, 1 / torch.where(x == 0, 1.0, x))"),
    ("torch.reciprocal(x.square())", [0.0, 2.0], "torch.where(x.square() == 0, 0.0, 1 / torch.where("),
    ("torch.erfinv(x)", [1.0, 0.5], "torch.erfinv(torch.clamp(x, -1 + 1e-06, 1 - 1e-06))"),
    ("torch.logit(x)", [0.0, 0.5], "torch.logit(torch.clamp(x, 1e-06, 1 - 1e-06))"),
    ("torch.lgamma(x)", [0.0, 0.5], "torch.lgamma(torch.clamp(x, min=1e-12))"),
    ("h = x * 2; h /= x; h", [0.0, 2.0], "h = torch.where(x == 0, 0.0, h / torch.where(x == 0, 1.0, x))"),
    ("h = x * 2; h /= x.abs().sum(); h", [0.0, 0.0], "h = torch.where(x.abs().sum() == 0, 0.0, h / torch.where("),
    (
        "h = x * 2; h[0] /= x[0]; h",
        [0.0, 2.0],
        "h[0] = torch.where(x[0] == 0, 0.0, h[0].clone() / torch.where(x[0] == 0, 1.0, x[0]))",
    ),
    (
        "x.sum() / x.numel() if x.min() > 0 else x / x.abs().sum()",
        [0.0, 0.0],
        "torch.where(x.abs().sum() == 0, 0.0, x / torch.where(",
    ),
    ("torch.xlogy(x, x)", [0.0, 1.0], "x * torch.log(torch.clamp(x, min=1e-12))"),
    ("x ** 0.5", [0.0, 2.0], "(x + 1e-12) ** 0.5"),
    ("torch.pow(x, 0.3)", [0.0, 2.0], "(x + 1e-12) ** 0.3"),
    ("x ** (-1.0)", [0.0, 2.0], "(x + 1e-12) ** (-1.0)"),
    ("1 / x", [0.0, -2.0], "torch.where(x == 0, 0.0, 1 / torch.where(x == 0, 1.0, x))"),
    (
        "h = x.masked_fill(x < 5, -1e+400); torch.exp(torch.logsumexp(h, dim=-1))",
        [[1.0, 2.0], [0.0, 9.0]],
        "torch.logsumexp(torch.clamp(h, min=-1e+09), dim=-1)",
    ),
    (
        "h = x.masked_fill(x < 5, -1e+400); torch.logsumexp(h, dim=-1)",
        [[1.0, 2.0], [0.0, 9.0]],
        "torch.logsumexp(torch.clamp(h, min=-1e+09), dim=-1)",
    ),
    ("torch.exp(x)", [100.0, 2.0], "torch.exp(torch.clamp(x, max=40))"),
    ("torch.cosh(x)", [-100.0, 2.0], "torch.cosh(torch.clamp(x, -80, 80))"),
    ("torch.softmax(x, dim=-1)", [[-INF, -INF], [0.0, 1.0]], "torch.softmax(torch.clamp(x, min=-1e+09), dim=-1)"),
    ("torch.log_softmax(x, -1)", [[-INF, -INF]], "torch.log_softmax(torch.clamp(x, min=-1e+09), dim=-1)"),
]


@pytest.mark.parametrize(("body", "numbers", "instead"), CHAINS + SINGLE)
@pytest.mark.filterwarnings("ignore:std():UserWarning", "ignore:var():UserWarning")
def test_the_remedy_cures(body, numbers, instead, tmp_path):
    text = program(body)
    report = explained(function(text, tmp_path, "import torch"), tensor(numbers))
    assert not report.ok
    if all(map(torch.isfinite, tensor(numbers).reshape(-1))):
        assert remedy_of(report)[0]["instead"].startswith(instead)
    cured = explained(function(applied(text, report), tmp_path, "import torch"), tensor(numbers))
    born = [one for one in cured.findings if one.kind != "came_in"]
    assert not [one for one in born if one.kind in ("born", "born_backward", "unknown")], (
        applied(text, report),
        str(cured),
    )


@pytest.mark.parametrize(("body", "numbers", "instead"), CHAINS + SINGLE)
@pytest.mark.filterwarnings("ignore:std():UserWarning", "ignore:var():UserWarning")
def test_a_block_says_the_same(body, numbers, instead, tmp_path):
    program_text = program(body)
    f = function(program_text, tmp_path, "import torch")
    x = tensor(numbers, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = f(x)
        loss.backward()
    assert remedy_of(bp.explain(rec))[0] == remedy_of(explained(f, tensor(numbers)))[0]


# where a remedy would not cure, or is for something else, it is not offered

OTHERS = [
    ("p = torch.softmax(x, dim=0); torch.log(p - 1)", [1.0, 0.0], "log_softmax"),
    ("p = torch.softmax(x, dim=0); torch.log(p * 0)", [1.0, 0.0], "log_softmax"),
    ("p = torch.sigmoid(x); torch.log(2 - p * 2 - x)", [0.0, 200.0], "logsigmoid"),
    ("torch.log(2 + torch.exp(x))", [200.0, 0.0], "softplus"),
    ("torch.exp(x) + 1", [200.0, 0.0], "softplus"),
    ("torch.sqrt(torch.exp(x))", [200.0, 0.0], "torch.exp(x / 2)"),
    ("e = torch.exp(x); e / torch.exp(x + 1).sum()", [200.0, 0.0], "softmax"),
    ("e = torch.exp(x); e / e.sum()", [[200.0, 0.0]], "softmax"),
    ("torch.sqrt(x ** 3)", [0.0, 1.0], "abs"),
    ("torch.sqrt(x)", [-1.0, 1.0], "1e-12"),
    ("torch.log(x)", [-1.0, 1.0], "clamp"),
    ("x ** 0.5", [-1.0, 1.0], "1e-12"),
    ("1 / x", [0.0, -1.0], "clamp"),
    ("x / x.sum()", [1.0, -1.0], "abs"),
    ("torch.std(x)", [INF, 1.0], "correction"),
    ("torch.softmax(x, dim=0)", [INF, 1.0], "clamp"),
    ("x * torch.log(x + 1)", [-1.0, 1.0], "zero"),
    ("torch.log(x / (x - 1))", [1.0, 3.0], "it divides by 0 nowhere"),  # the logarithm of 0 instead
    ("q = torch.exp(x) / x; torch.log(q)", [0.0, 3.0], "it divides by 0 nowhere"),
]


@pytest.mark.parametrize(("body", "numbers", "remedy"), OTHERS)
def test_no_remedy_where_it_does_not_apply(body, numbers, remedy, tmp_path):
    report = explained(function(program(body), tmp_path, "import torch"), tensor(numbers))
    assert not report.ok
    assert not any(remedy in one.remedy for one in report.findings), str(report)


# over functions, modules and names


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = torch.nn.Linear(1, 2), torch.nn.Softmax(dim=1)
        torch.nn.init.constant_(self.fc.bias, 0.0)
        with torch.no_grad():
            self.fc.weight[:] = tensor([[300.0], [0.0]])

    def forward(self, x):
        return self.out(self.fc(x))


def test_a_module_whose_output_another_line_takes_the_logarithm_of():
    net, x = Net(), torch.ones(1, 1)
    with bp.probe(nonfinite=True) as rec:
        probabilities = net(x)
        loss = -torch.log(probabilities).sum()
        loss.backward()
    birth = bp.explain(rec).of_kind("born")[0]
    assert birth.name == "loss"
    golden("nonfinite", birth)


def test_a_value_of_an_object_that_the_line_does_not_know_is_not_written():
    class Model:
        def __call__(own, x):
            own.logits = x * 300
            own.out = torch.sigmoid(own.logits)
            return own.out

    model, x = Model(), tensor([1.0, -1.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        out = model(x)
        loss = torch.log(1 - out).sum()
        loss.backward()
    birth = bp.explain(rec).of_kind("born")[0]
    assert birth.name == "loss"
    golden("nonfinite", birth)


def test_what_is_computed_outside_a_model_is_not_said_to_be_in_it():
    net = Net()
    report = bp.explain(bp.probe(net, of=lambda p: torch.log(p).sum(), nonfinite=True)(torch.ones(1, 1)))
    birth = report.of_kind("born", "unknown")[0]
    assert birth.name == "of()"
    golden("nonfinite", birth)


def rebound(x):
    h = x * 1
    h = torch.sigmoid(h)
    y = torch.log(1 - h)
    return y.sum()


def test_a_name_that_was_bound_again_is_not_written():
    birth = explained(rebound, tensor([200.0, 0.0])).of_kind("born")[0]
    assert birth.name == "y"
    golden("nonfinite", birth)


def every_target_ignored(x):
    labels = torch.tensor([-100, -100])
    loss = torch.nn.functional.cross_entropy(x, labels)
    return loss


def test_a_cross_entropy_of_no_target():
    birth = explained(every_target_ignored, torch.ones(2, 3)).of_kind("born")[0]
    assert birth.name == "loss"
    golden("nonfinite", birth)
    x, labels = torch.ones(2, 3, requires_grad=True), torch.tensor([-100, -100])
    loss = torch.nn.functional.cross_entropy(x, labels, reduction="sum") / torch.clamp(torch.sum(labels >= 0), min=1)
    loss.backward()
    assert (loss.item(), x.grad.abs().sum().item()) == (0.0, 0.0)


def one_target_kept(x):
    loss = torch.nn.functional.cross_entropy(x / 0, torch.tensor([-100, 1]))
    return loss


def test_a_cross_entropy_of_some_targets_is_not_said_to_have_none():
    report = explained(one_target_kept, torch.ones(2, 3))
    assert not any("every target" in one.headline for one in report.findings)


def test_statistics_that_a_batch_of_one_has_spoiled():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    norm = net[1]
    torch.batch_norm(
        torch.ones(1, 2), norm.weight, norm.bias, norm.running_mean, norm.running_var, True, 0.1, 1e-5, False
    )  # as nn.BatchNorm1d does, but for its check of the batch
    assert norm.running_var.isnan().all()
    net.eval()
    report = bp.explain(bp.probe(net, of=torch.sum, nonfinite=True)(torch.ones(3, 2)))
    (birth,) = report.of_kind("came_in")
    assert birth.remedy.startswith("reset_running_stats()")
    norm.reset_running_stats()
    assert bp.explain(bp.probe(net, of=torch.sum, nonfinite=True)(torch.ones(3, 2))).ok


@pytest.mark.parametrize("scale", [65536.0, 256.0])
def test_a_scaled_loss_in_half_precision(scale):
    x = tensor([100.0, 2.0], dtype=torch.float16, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = (x * 2).sum()
        scaled = loss * scale
        scaled.backward()
    report = bp.explain(rec)
    assert report.ok == (scale == 256.0)
    assert report.ok or any("scale" in one.remedy for one in report.findings)


def masked_out(x):
    y = torch.where(x > 0, torch.sqrt(x), 0.0)
    return y.sum()


def masked_in_both_places(x):
    safe = torch.where(x > 0, x, 1)
    y = torch.where(x > 0, torch.sqrt(safe), 0.0)
    return y.sum()


def test_the_double_where_cures():
    birth = explained(masked_out, tensor([0.0, 1.0])).of_kind("born_backward")[0]
    assert birth.name == "sqrt()"
    golden("nonfinite", birth)
    assert explained(masked_in_both_places, tensor([0.0, 1.0])).ok


def test_an_expression_that_draws_numbers_is_not_written_a_second_time(tmp_path):
    """It would draw others: the program would go on with two samples."""
    body = "p = torch.softmax(x * torch.rand(2), 0); torch.log(p)"
    f = function(program(body), tmp_path, "import torch")
    report = explained(f, tensor([1e6, 0.0]))
    remedy, finding = remedy_of(report)
    assert remedy["instead"] == "torch.log_softmax(logits, dim=0)"
    assert (finding.kind, finding.name) == ("born", "y")
    golden("nonfinite", finding)


def test_one_that_draws_nothing_is_written_as_it_is(tmp_path):
    f = function(program("p = torch.softmax(x * 2, 0); torch.log(p)"), tmp_path, "import torch")
    remedy, _ = remedy_of(explained(f, tensor([1e6, 0.0])))
    assert remedy["instead"] == "torch.log_softmax(x * 2, dim=0)"
