# from: https://github.com/hassony2/kinetics_i3d_pytorch/issues/6
# exit: 1
# says: (?i)dropout
# never: detach|no_grad|not used
"""The probability to keep a value, which is 1, is given to a layer that wants the probability to drop it."""

import torch
from torch import nn

torch.manual_seed(0)


class Clips(nn.Module):
    def __init__(self, classes, dropout_keep_prob=1.0):
        super().__init__()
        self.stem = nn.Conv3d(3, 4, 3, padding=1)
        self.mixed = nn.Conv3d(4, 8, 1)
        self.dropout = nn.Dropout(dropout_keep_prob)
        self.logits = nn.Conv3d(8, classes, 1)

    def forward(self, video):
        x = torch.relu(self.stem(video))
        x = torch.relu(self.mixed(x)).mean(dim=(2, 3, 4), keepdim=True)
        x = self.dropout(x)  # <- here
        return self.logits(x).flatten(1)


model = Clips(classes=3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for batch in range(3):
    video, label = torch.randn(4, 3, 4, 6, 6), torch.randint(0, 3, (4,))
    loss = nn.functional.cross_entropy(model(video), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
