"""PyTorch's anomaly mode."""

import traceback

from pairs import Pair
from small import given as small

TITLE, NAME = "Anomaly mode", "torch"


def given():
    return small() | {"traceback": traceback}


PAIRS = [
    Pair(
        "the backward function that first gave NaN",
        """\
zero = torch.zeros(3, requires_grad=True)
try:
    with torch.autograd.detect_anomaly(check_nan=True):
        (zero.sqrt() * 0).sum().backward()
except RuntimeError as error:
    found = str(error)
"sqrt" in found.lower()
""",
        """\
zero = torch.zeros(3, requires_grad=True)
with bp.probe(nonfinite=True) as rec:
    root = zero.sqrt()
    loss = (root * 0).sum()
    loss.backward()
"sqrt" in str(bp.explain(rec).findings[0])
""",
        "ours says which numbers, and what to write",
    ),
    Pair(
        "an Inf in backward",
        """\
zero = torch.zeros(3, requires_grad=True)
with torch.autograd.detect_anomaly(check_nan=True):
    zero.sqrt().sum().backward()  # no error: anomaly mode looks for NaN alone
bool(zero.grad.isinf().all())
""",
        """\
zero = torch.zeros(3, requires_grad=True)
with bp.probe(nonfinite=True) as rec:
    root = zero.sqrt()
    loss = root.sum()
    loss.backward()
bp.explain(rec).findings[0].name == "root"
""",
        "found by ours alone",
    ),
    Pair(
        "a training that stops at the first NaN",
        """\
nn.init.constant_(model.second.weight, float("nan"))
try:
    with torch.autograd.detect_anomaly(check_nan=True):
        model(x).square().sum().backward()
    stopped = False
except RuntimeError:
    stopped = True
stopped
""",
        """\
nn.init.constant_(model.second.weight, float("nan"))
try:
    with bp.guard(model):
        model(x).square().sum().backward()
    stopped = False
except bp.BackprobeError:
    stopped = True
stopped
""",
        "ours stops in forward already, at the layer",
    ),
    Pair(
        "the line of the forward that gave NaN in backward",
        """\
import warnings

zero = torch.zeros(3, requires_grad=True)
with warnings.catch_warnings(record=True) as warned, torch.autograd.detect_anomaly(check_nan=True):
    warnings.simplefilter("always")
    root = zero.sqrt()
    try:
        (root * 0).sum().backward()
    except RuntimeError:
        pass
any("root = zero.sqrt()" in str(one.message) for one in warned)
""",
        """\
zero = torch.zeros(3, requires_grad=True)
with bp.probe(nonfinite=True) as rec:
    root = zero.sqrt()
    loss = (root * 0).sum()
    loss.backward()
"root = zero.sqrt()" in str(bp.explain(rec).findings[0])
""",
        "anomaly mode prints it as a warning, with the traceback around it",
    ),
    Pair(
        "a whole training in which nothing is wrong",
        """\
with torch.autograd.detect_anomaly(check_nan=True):
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
loss
""",
        """\
with bp.guard(model):
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
loss
""",
        "anomaly mode makes each operation keep a traceback, a guard looks at what the model returns and gets back",
    ),
]
