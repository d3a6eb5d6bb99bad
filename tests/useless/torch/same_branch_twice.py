# from: https://github.com/suvojit-0x55aa/A2S2K-ResNet/issues/4
# truth: both kernels get the score of one convolution, so that the softmax over the two is one half whatever it learns
# kind: cancels
# names: conv_ex attention
import torch
from torch import nn


class SelectiveKernel(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.small = nn.Conv2d(1, channels, 3, padding=1)
        self.large = nn.Conv2d(1, channels, 5, padding=2)
        self.conv_ex = nn.Conv2d(channels, channels, 1)
        self.head = nn.Linear(channels, 3)

    def forward(self, image):
        branches = torch.stack([self.small(image).relu(), self.large(image).relu()], 1)
        pooled = branches.sum(1).mean((2, 3), keepdim=True)
        scores = torch.cat([self.conv_ex(pooled).unsqueeze(1), self.conv_ex(pooled).unsqueeze(1)], 1)
        attention = torch.softmax(scores, dim=1)  # <- here
        mixed = (branches * attention).sum(1)
        return self.head(mixed.mean((2, 3)))


torch.manual_seed(0)
net = SelectiveKernel()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
images, labels = torch.rand(8, 1, 9, 9), torch.randint(0, 3, (8,))
for step in range(4):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step}: {loss.item():.4f}")
