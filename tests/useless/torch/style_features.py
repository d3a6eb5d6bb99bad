# from: https://docs.pytorch.org/tutorials/advanced/neural_style_tutorial.html
# truth: healthy: the picture is trained and the network is frozen; a Gram matrix is a wanted outer product
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


def gram(features):
    b, c, h, w = features.shape
    flat = features.view(b * c, h * w)
    return flat @ flat.t() / (b * c * h * w)


torch.manual_seed(0)
cnn = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()).requires_grad_(False).eval()
content, style = torch.rand(1, 3, 10, 10), torch.rand(1, 3, 10, 10) ** 3
wanted_content, wanted_style = cnn(content).detach(), gram(cnn(style)).detach()
picture = content.clone().requires_grad_(True)
optimizer = torch.optim.Adam([picture], lr=0.02)
for step in range(5):
    with torch.no_grad():
        picture.clamp_(0, 1)
    optimizer.zero_grad()
    features = cnn(picture)
    loss = 1e4 * F.mse_loss(gram(features), wanted_style) + F.mse_loss(features, wanted_content)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
