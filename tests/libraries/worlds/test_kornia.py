"""Kornia: computer vision whose operations are differentiable: warps, filters, augmentations, losses."""

import kornia
import torch
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("kornia",)


# https://kornia.readthedocs.io/en/latest/get-started/introduction.html
def blurred(image, sigma):
    smooth = kornia.filters.gaussian_blur2d(image, (3, 3), sigma.expand(1, 2), border_type="constant")
    energy = smooth.square().sum()
    return energy


def test_blur_by_hand(ask):
    image, sigma = torch.zeros(1, 1, 5, 5), torch.tensor([[0.8]])
    image[0, 0, 2, 2] = 1.0
    rec = ask.function(blurred, lambda: (image.clone().requires_grad_(), sigma.clone().requires_grad_()))

    def kernel(sigma):
        one = torch.exp(-torch.tensor([1.0, 0.0, 1.0]) / (2 * sigma**2))
        one = one / one.sum()
        return one[:, None] * one

    s = torch.tensor(0.8, requires_grad=True)
    (d_sigma,) = torch.autograd.grad(kernel(s).square().sum(), s)
    smooth = torch.nn.functional.conv2d(image, kernel(0.8).detach()[None, None], padding=1)
    d_image = torch.nn.functional.conv2d(2 * smooth, kernel(0.8).detach()[None, None], padding=1)
    right = {"sigma": d_sigma.reshape(1, 1), "smooth": 2 * smooth, "image": d_image, "energy": 1.0}
    ask.gradients(rec, right, tolerance=1e-4)
    ask.names(rec, "image", "sigma", "smooth", "energy")
    ask.clean(rec)
    ask.works("filters: the image and the width of a blur, by hand")


# https://kornia.readthedocs.io/en/latest/applications/image_registration.html: an image is moved onto another
class Registration(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.angle = nn.Parameter(torch.zeros(1, 2)), nn.Parameter(torch.full((1,), 5.0))

    def forward(self, image):
        turned = kornia.geometry.transform.rotate(image, self.angle)
        moved = kornia.geometry.transform.translate(turned, self.shift)
        return moved


class RegistrationCut(Registration):
    def forward(self, image):
        angle = torch.tensor([self.angle.item()])  # <- cut
        turned = kornia.geometry.transform.rotate(image, angle)
        return kornia.geometry.transform.translate(turned, self.shift)


def registration(around, kind=Registration, steps=20, select=None):
    model = kind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    image = kornia.filters.gaussian_blur2d(torch.rand(1, 1, 9, 9), (3, 3), (1.0, 1.0))
    target = torch.roll(image, 1, -1)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(image) - target).abs().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_registration(ask):
    rec = ask.block(registration, Registration, 1, ["**", ":*"])
    _, grads = ask.bare(registration, Registration, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "turned", "moved", "shift", "angle")
    ask.clean(rec)
    last = ask.watched(registration)
    ask.rows(last, "shift", "angle")
    ask.works("warps: angle and shift of an image registration, and `bp.watch` over it")


def test_planted_cut(ask):
    rec = ask.block(registration, RegistrationCut, 1, ["**", ":*"])
    ask.cut(rec, RegistrationCut.forward)
    ask.statuses(rec, {":angle": "detached"})


# https://kornia.readthedocs.io/en/latest/augmentation.html: random, and differentiable
def augmented(around):
    layer = nn.Conv2d(3, 2, 3)
    augment = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=1.0),
        kornia.augmentation.RandomAffine(degrees=20.0, p=1.0),
        kornia.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        data_keys=["input"],
    )
    image = torch.rand(2, 3, 8, 8, requires_grad=True)
    with around() as seen:
        changed = augment(image)
        logits = layer(changed).mean((2, 3))
        loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1]))
        loss.backward()
    return seen, loss, image.grad, layer.weight.grad, logits


def test_augmentation(ask):
    rec = ask.block(augmented)
    _, d_image, d_weight, logits = ask.bare(augmented)
    d_logits = (logits.softmax(1) - torch.eye(2)) / 2
    ask.gradients(rec, {"image": d_image, "logits": d_logits, "loss": 1.0})
    ask.names(rec, "image", "changed", "logits")
    ask.clean(rec)
    ask.works("augmentations: the same random numbers, and gradients through them")


# https://kornia.readthedocs.io/en/latest/losses.html: SSIM and total variation
def losses(image):
    varied = kornia.losses.total_variation(image)
    similar = kornia.losses.ssim_loss(image, torch.ones_like(image) / 2, 3)
    return varied.sum() + similar


def test_losses(ask):
    torch.manual_seed(1)
    image = torch.rand(1, 1, 5, 5)
    rec = ask.function(losses, lambda: (image.clone().requires_grad_(),))
    at = image.clone().requires_grad_()
    (right,) = torch.autograd.grad(losses(at), at)
    ask.gradients(rec, {"image": right, "varied": [[1.0]], "similar": 1.0})
    ask.clean(rec)


# planted
def angle_of_nothing(vector):
    length = torch.linalg.norm(vector - vector)
    unit = vector / length  # <- nan
    matrix = kornia.geometry.conversions.axis_angle_to_rotation_matrix(unit[None])
    return matrix.sum()


def gradient_of_magnitude(image):
    edges = kornia.filters.spatial_gradient(image)
    magnitude = edges.square().sum(2).sqrt()  # <- nan
    return magnitude.sum()


def test_planted_nan(ask):
    rec = ask.function(angle_of_nothing, lambda: (torch.tensor([1.0, 2.0, 0.5], requires_grad=True),), nonfinite=True)
    ask.nan(rec, angle_of_nothing)
    image = lambda: (torch.ones(1, 1, 4, 4, requires_grad=True),)
    rec = ask.function(gradient_of_magnitude, image, nonfinite=True)
    ask.nan(rec, gradient_of_magnitude)
