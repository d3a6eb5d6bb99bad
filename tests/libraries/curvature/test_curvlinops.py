"""curvlinops: curvature matrices as linear operators, that differentiate the model inside."""

import torch
from curvlinops import GGNLinearOperator, HessianLinearOperator
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("curvlinops-for-pytorch",)


def made():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x, y = torch.randn(6, 3, dtype=torch.double), torch.randn(6, 2, dtype=torch.double)
    return model, nn.MSELoss(), [p for p in model.parameters()], x, y


NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


# https://curvlinops.readthedocs.io/en/latest/basic_usage/example_matrix_vector_products.html
def product(around, kind=HessianLinearOperator):
    model, loss_function, parameters, x, y = made()
    named = dict(model.named_parameters())
    with around() as seen:
        operator = kind(model, loss_function, named if kind is None else parameters, [(x, y)])
        vector = torch.ones(operator.shape[1], dtype=torch.double)
        answer = operator @ vector
    return seen, answer


def test_products(ask):
    for kind in (HessianLinearOperator, GGNLinearOperator):
        rec = ask.block(product, kind)
        ask.names(rec, "answer", "vector")
    ask.works("products with Hessian and GGN within a block are the same")


def newton(around):
    model, loss_function, parameters, x, y = made()
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            loss.backward()
            operator = GGNLinearOperator(model, loss_function, parameters, [(x, y)])
            flat = torch.cat([p.grad.flatten() for p in parameters])
            along = operator @ flat
            scale = flat.square().sum() / (flat @ along + 1e-3)
            for p in parameters:
                p.grad.mul_(scale.clamp(max=3))
            optimizer.step()
    return seen, loss, list(model.parameters())


def test_training_is_watched(ask):
    last = ask.watched(newton)
    ask.rows(last, *NAMES)
    ask.works("`bp.watch` over a training whose steps ask an operator")


def beside(around):
    model, loss_function, parameters, x, y = made()
    with around(model) as seen:
        loss = loss_function(model(x), y)
        loss.backward()
        operator = HessianLinearOperator(model, loss_function, parameters, [(x, y)])
        curved = operator @ torch.ones(operator.shape[1], dtype=torch.double)
    return seen, loss, curved, [p.grad for p in parameters]


def test_gradients_beside_an_operator(ask):
    rec = ask.block(beside)
    *_, grads = ask.bare(beside)
    ask.gradients(rec, dict(zip(NAMES, grads)))


def by_hand(around):
    model, loss_function, parameters, x, y = made()
    with around() as seen:
        hidden = torch.tanh(model[0](x))
        out = model[2](hidden)
        loss = loss_function(out, y)
        loss.backward()
    return seen, loss, hidden, out, y


def test_loss_by_hand(ask):
    rec = ask.block(by_hand)
    _, hidden, out, y = ask.bare(by_hand)
    d_out = (out - y) / 6
    ask.gradients(rec, {"out": d_out, "loss": 1.0, "hidden": d_out @ made()[0][2].weight})
    ask.clean(rec)


# planted
def cut(around):
    model, loss_function, parameters, x, y = made()
    with around() as seen:
        hidden = torch.tanh(model[0](x))
        rounded = hidden.round()
        out = model[2](torch.tensor(rounded.tolist(), dtype=torch.double))  # <- cut
        loss = loss_function(out, y)
        loss.backward()
    return seen, loss


def nan(around):
    model, loss_function, parameters, x, y = made()
    with around() as seen:
        hidden = model[0](x).clamp(max=-100)
        root = (hidden + 100).sqrt()  # <- nan
        loss = loss_function(model[2](root), y)
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    ask.statuses(rec, {"hidden": "not_connected"})
