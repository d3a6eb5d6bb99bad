"""torchvision, which timm imports, has operators built for CUDA, which do not load beside a PyTorch without it."""

import torch

if torch.version.cuda is None:  # timm needs none of them, but torchvision looks for these as it is imported
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
