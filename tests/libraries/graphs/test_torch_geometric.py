"""PyTorch Geometric: messages along edges; modules that compile their own propagation, and containers of graphs."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, MessagePassing, Sequential, global_mean_pool
from torch_geometric.utils import softmax

FRAMEWORK, LIBRARIES = "PyTorch", ("torch_geometric",)
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


# https://pytorch-geometric.readthedocs.io/en/latest/get_started/introduction.html
class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(3, 5), GCNConv(5, 2)

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        x = self.conv1(x, edge_index)
        x = F.relu(x)
        x = F.dropout(x, training=self.training)
        x = self.conv2(x, edge_index)
        return F.log_softmax(x, dim=1)


def graph():
    return Data(x=torch.randn(4, 3), edge_index=EDGES, y=torch.tensor([0, 1, 0, 1]))


def training(around, steps=20, select=None):
    data, model = graph(), GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(data)
            loss = F.nll_loss(out, data.y)
            loss.backward()
            optimizer.step()
    return seen, loss, [p.grad for p in model.parameters()], list(model.parameters())


NAMES = ("conv1.bias", "conv1.lin.weight", "conv2.bias", "conv2.lin.weight")


def test_introduction(ask):
    rec = ask.block(training, 1)
    _, grads, _ = ask.bare(training, 1)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.names(rec, "conv1", "conv1.lin", "conv2", "return")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "conv1", "conv1.lin", "conv2", *NAMES)
    ask.works("graph convolutions and `Data`: every layer, and `bp.watch` over the training")


def test_locals_of_a_forward(ask):
    rec = ask.block(training, 1, ["**", ":*"])
    ask.names(rec, "x#0", "x#1", "x#2", "x#3", "x#4", "edge_index")
    ask.statuses(rec, {"edge_index": "not_float", "x#0": "frozen"})


# https://pytorch-geometric.readthedocs.io/en/latest/tutorial/create_gnn.html
class EdgeConv(MessagePassing):
    def __init__(self):
        super().__init__(aggr="max")
        self.mlp = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        joined = torch.cat([x_i, x_j - x_i], dim=1)
        return self.mlp(joined)


class EdgeConvCut(EdgeConv):
    def message(self, x_i, x_j):
        joined = torch.cat([x_i, x_j - x_i], dim=1)
        joined = joined.detach().clone()  # <- cut
        return self.mlp(joined)


def own_messages(around, kind=EdgeConv):
    first, conv = nn.Linear(3, 2), kind()
    model = nn.ModuleDict({"first": first, "conv": conv})
    x = torch.randn(4, 3)
    with around(model, ["**", "**:*"]) as seen:
        out = conv(first(x), EDGES)
        loss = out.square().mean()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_own_messages(ask):
    rec = ask.block(own_messages)
    _, grads = ask.bare(own_messages)
    ask.gradients(rec, grads)
    ask.names(rec, "first", "conv", "conv.mlp.0", "conv:x")
    ask.clean(rec)
    ask.works("a `MessagePassing` of one's own: its network and its input")


def test_cut_in_a_message(ask):
    rec = ask.block(own_messages, EdgeConvCut)
    ask.cut(rec, EdgeConvCut.message)
    ask.statuses(rec, {"first.weight": "not_connected", "first": "not_connected"})


# messages by hand: a mean over neighbours
def smoothed(x, weight):
    class Smooth(MessagePassing):
        def __init__(self):
            super().__init__(aggr="mean")

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

    h = x @ weight
    out = Smooth()(h, EDGES)
    return out.square().sum()


def test_smoothing_by_hand(ask):
    inputs = torch.arange(8.0).reshape(4, 2), torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    rec = ask.function(smoothed, lambda: tuple(each.clone().requires_grad_() for each in inputs))
    mean = torch.zeros(4, 4)
    mean[EDGES[1], EDGES[0]] = 1.0
    mean /= mean.sum(1, keepdim=True)
    x, weight = inputs
    out = mean @ (x @ weight)
    d_h = mean.T @ (2 * out)
    ask.gradients(rec, {"out": 2 * out, "h": d_h, "weight": x.T @ d_h, "x": d_h @ weight.T})
    ask.names(rec, "x", "weight", "h", "out")
    ask.clean(rec)


# https://pytorch-geometric.readthedocs.io/en/latest/notes/colabs.html: graph classification
def classification(around):
    model = Sequential(
        "x, edge_index, batch",
        [
            (GATConv(3, 4, heads=2, concat=False), "x, edge_index -> x"),
            nn.ELU(),
            (global_mean_pool, "x, batch -> x"),
            nn.Linear(4, 2),
        ],
    )
    batch = Batch.from_data_list([graph(), graph()])
    with around(model) as seen:
        logits = model(batch.x, batch.edge_index, batch.batch)
        loss = F.cross_entropy(logits, torch.tensor([0, 1]))
        loss.backward()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_classification(ask):
    rec = ask.block(classification)
    _, grads = ask.bare(classification)
    ask.gradients(rec, grads)
    ask.clean(rec)
    ask.works("`Sequential`, `GATConv` and pooling over a batch of graphs")


# planted
def attention_of_nothing(scores, values):
    weights = softmax(scores, EDGES[1], num_nodes=4)
    gap = weights[0] - weights[0]
    sharp = torch.sqrt(gap)  # <- nan
    return (weights * values).sum() + sharp


def test_planted_nan(ask):
    inputs = lambda: (torch.randn(6, requires_grad=True), torch.randn(6, requires_grad=True))
    rec = ask.function(attention_of_nothing, inputs, nonfinite=True)
    ask.nan(rec, attention_of_nothing)
    ask.names(rec, "weights", "sharp")


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "pyg_gcn.py")
