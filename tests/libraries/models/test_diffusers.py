"""Diffusers: networks that remove noise, by their scheduler's step, with attention and skip connections."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("diffusers",)


def network():
    return UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )


# https://huggingface.co/docs/diffusers/tutorials/basic_training
def training(around, steps=20, select=None):
    model, scheduler = network(), DDPMScheduler(num_train_timesteps=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.randn(2, 1, 8, 8)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            noise, times = torch.randn_like(images), torch.randint(0, 10, (2,))
            noisy = scheduler.add_noise(images, noise, times)
            predicted = model(noisy, times, return_dict=False)[0]
            loss = nn.functional.mse_loss(predicted, noise)
            loss.backward()
            if steps > 1:
                optimizer.step()
                optimizer.zero_grad()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_training(ask):
    rec = ask.block(training, 1)
    _, grads = ask.bare(training, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "conv_in", "down_blocks.1.attentions.0", "mid_block.resnets.0", "up_blocks.0", "time_embedding")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "conv_in.weight", "mid_block.attentions.0.to_q.weight", "up_blocks.1.resnets.0")
    ask.works("the training of a small UNet: every parameter, blocks by path, `bp.watch`")


# the scheduler by hand: x_t = sqrt(a) x + sqrt(1 - a) noise
def noisy(images, noise):
    scheduler = DDPMScheduler(num_train_timesteps=10)
    mixed = scheduler.add_noise(images, noise, torch.tensor([3, 7]))
    return mixed.square().sum()


def test_scheduler_by_hand(ask):
    torch.manual_seed(1)
    images, noise = torch.randn(2, 1, 2, 2), torch.randn(2, 1, 2, 2)
    rec = ask.function(noisy, lambda: (images.clone().requires_grad_(), noise.clone().requires_grad_()))
    kept = DDPMScheduler(num_train_timesteps=10).alphas_cumprod[torch.tensor([3, 7])].view(2, 1, 1, 1)
    mixed = kept.sqrt() * images + (1 - kept).sqrt() * noise
    right = {"mixed": 2 * mixed, "images": 2 * mixed * kept.sqrt(), "noise": 2 * mixed * (1 - kept).sqrt()}
    ask.gradients(rec, right)
    ask.names(rec, "images", "noise", "mixed")
    ask.clean(rec)


# https://huggingface.co/docs/diffusers/using-diffusers/write_own_pipeline: guidance through a step of the scheduler
def guided(around):
    model, scheduler = network(), DDPMScheduler(num_train_timesteps=10)
    scheduler.set_timesteps(10)
    model.requires_grad_(False)
    image = torch.randn(1, 1, 8, 8, requires_grad=True)
    with around() as seen:
        predicted = model(image, 3).sample
        clean = scheduler.step(predicted, 3, image).pred_original_sample
        loss = (clean - 1).square().mean()
        loss.backward()
    return seen, loss, image.grad, clean


def test_guidance(ask):
    rec = ask.block(guided)
    _, d_image, clean = ask.bare(guided)
    ask.gradients(rec, {"image": d_image, "clean": 2 * (clean - 1) / 64 * (clean.abs() <= 2), "loss": 1.0})
    ask.names(rec, "image", "predicted", "clean", "loss")
    ask.clean(rec)
    ask.works("guidance through a step of the scheduler: the image, frozen weights")


# planted
def cut(around):
    model, scheduler = network(), DDPMScheduler(num_train_timesteps=10)
    images = torch.randn(2, 1, 8, 8)
    with around() as seen:
        predicted = model(images, 3).sample
        shown = predicted.detach().cpu().numpy()  # <- cut
        again = torch.from_numpy(shown)
        scale = torch.ones(1, requires_grad=True)
        loss = (again * scale).square().mean()
        loss.backward()
    return seen, loss


def nan(around):
    model = network()
    with around() as seen:
        predicted = model(torch.randn(1, 1, 8, 8), 3).sample
        variance = (predicted - predicted).square().mean()
        deviation = variance.sqrt()  # <- nan
        loss = predicted.mean() + deviation
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    ask.statuses(rec, {"predicted": "not_connected", "again": "detached"})
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)
