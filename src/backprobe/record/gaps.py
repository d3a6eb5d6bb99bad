"""Reasons why a name has no row in one step of a run."""

from __future__ import annotations

from enum import Enum


class GapCode(Enum):
    """One reason, with its ``meaning`` in words; its value is stored in a run on disk."""

    meaning: str

    # the default is for type checkers, which take GapCode("open") for a call of this method
    def __new__(cls, value: str, meaning: str = "") -> GapCode:
        code = object.__new__(cls)
        code._value_, code.meaning = value, meaning
        return code

    NOT_CALLED = "not_called", "no call of it was seen"
    NO_GRAD = "no_grad", "it was called without recording gradients only, as under torch.no_grad()"
    OTHER_THREAD = "other_thread", "it was called in other threads only, which are not watched"
    UNHEARD = (
        "unheard",
        "no call of it was seen, and its parameters have gradients: its forward() or its parameters were "
        "used directly, or its code was compiled before it was watched",
    )
    NOT_RETURNED = "not_returned", "it was called, and did not return this tensor"
    NO_TENSOR = (
        "no_tensor",
        "it was called, and returned no tensor and no container of tensors: None, or an object of "
        "another class, which is not opened",
    )
    PARTIAL = "partial", "each process had only its part of it, which was not reduced yet (a DTensor that is Partial)"
    UNREADABLE = (
        "unreadable",
        "it was there, and its numbers could not be read: a meta tensor, a tensor whose memory was "
        "freed, or one of a class of its own",
    )
    NOT_BOUND = "not_bound", "the forward ran, and bound it to no floating-point tensor"
    OTHER_FORWARD = (
        "other_forward",
        "its module was called, and another forward ran in place of its own, as within bp.probe",
    )
    NO_GRADIENT = "no_gradient", "it had a value, and no gradient came back to it"
    WRITTEN = "written", "it is a view whose memory was written to before backward(): the gradient goes around it"
    EMPTY_GRADIENT = "empty_gradient", "its .grad was None as the optimizer stepped, or at run.step()"
    COMPUTED = "computed", "it is no leaf, since the program computed it: backward() sets the .grad of leaves only"
    NOT_OPTIMIZED = "not_optimized", "no watched optimizer has it"
    NOT_STEPPED = "not_stepped", "its optimizer did not step"
    REMOVED = "removed", "it was no longer a part of the model"
    # Reasons for steps that are missing as a whole.
    NO_BACKWARD = "no_backward", "backward() did not run through the model"
    OPEN = "open", "no optimizer had ended it as the watch did, and backward() ran far more often than in others"
    SKIPPED = "skipped", "the GradScaler skipped the step, since it found Inf or NaN in gradients"
    SKIPPED_NAN = (
        "skipped_nan",
        "the GradScaler skipped the step, and the forward had NaN already: no scale of the loss makes that",
    )
    NOT_WRITTEN = (
        "not_written",
        "nothing of them is in the run: start_step= left them out, or nothing in them was measured",
    )
    CUT_SHORT = (
        "cut_short",
        "the run was not closed: the training was killed, still runs, or could no longer be written",
    )
