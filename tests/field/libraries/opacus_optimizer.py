# from: own
# ask: python
import tempfile
import warnings

import torch
from opacus import PrivacyEngine

import backprobe as bp

warnings.simplefilter("ignore")
torch.manual_seed(0)
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 3)), batch_size=4)
model, private, data = PrivacyEngine().make_private(
    module=layer, optimizer=optimizer, data_loader=data, noise_multiplier=1.0, max_grad_norm=1.0
)
for given in (private, private.original_optimizer):
    with tempfile.TemporaryDirectory() as folder:
        with bp.watch(model, f"{folder}/run", optimizer=given, what=("value", "grad", "param", "update")):
            model(torch.ones(4, 3)).square().mean().backward()
            private.step()
            private.zero_grad()
        with bp.open_run(f"{folder}/run") as run:
            assert run.at(0)["_module.weight"]["grad.rms"] > 0
