"""Recognizes operations that decompose a matrix, by the tensors that autograd's node has saved for its derivative.

Such a node keeps the vectors of the matrix, which are orthonormal, and one number for each of them: its eigenvalue or
singular value. Its derivative divides by differences of these numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch import saved_tensors

LARGEST = 512
"""The largest number of vectors that are examined."""


def decomposes(node: Node) -> bool:
    """Has a node of one operand saved the vectors of a matrix, with a number for each?

    A product with an orthonormal matrix saves the same two tensors, but it has two operands.
    """
    if len(node.next_functions) != 1:
        return False
    with torch.no_grad():
        saved = [one.detach() for one in saved_tensors.tensors(node) if _is_plain(one)]
        return any(_are_vectors(one, other) for one in saved for other in saved)


def _is_plain(tensor: Tensor) -> bool:
    is_dense = type(tensor) is Tensor and tensor.layout is torch.strided and not tensor.is_nested
    return is_dense and not tensor.is_meta and (tensor.is_floating_point() or tensor.is_complex())


def _are_vectors(matrix: Tensor, numbers: Tensor) -> bool:
    # Is this matrix orthonormal, by columns or by rows, with one number for each column or row?
    if matrix.dim() < 2 or not 1 < min(matrix.shape[-2:]) <= LARGEST or numbers.is_complex():
        return False
    for vectors in (matrix, matrix.mH):
        if numbers.shape == (*vectors.shape[:-2], vectors.shape[-1]) and vectors.shape[-1] <= vectors.shape[-2]:
            products = vectors.mH @ vectors
            close = torch.finfo(products.dtype).eps ** 0.5
            if torch.allclose(products, torch.eye(vectors.shape[-1]).to(products), close, close):
                return True
    return False
