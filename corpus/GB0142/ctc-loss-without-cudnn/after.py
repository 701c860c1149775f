"""The native CTC loss instead of cuDNN's, for each text of a batch."""

import torch
from torch.nn.functional import ctc_loss


def ctc_loss_op_in_python(log_probs, targets, lengths, target_lengths, reduction):
    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.ctc_loss(
            log_probs,
            targets,
            lengths,
            target_lengths,
            reduction=reduction,
        )


@torch.library.custom_op("before::ctc_loss_op", mutates_args=())
def ctc_loss_op(log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, target_lengths: torch.Tensor, reduction: str) -> torch.Tensor:
    return ctc_loss_op_in_python(log_probs, targets, lengths, target_lengths, reduction)


@ctc_loss_op.register_fake
def _(log_probs, targets, lengths, target_lengths, reduction):
    return log_probs.new_empty(log_probs.shape[1:-1] if reduction == "none" else ())


@torch.library.custom_op("before::ctc_loss_op_backward", mutates_args=())
def ctc_loss_op_backward(log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, target_lengths: torch.Tensor, reduction: str, gradient: torch.Tensor) -> torch.Tensor:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = torch.func.vjp(lambda log_probs: ctc_loss_op_in_python(log_probs, targets, lengths, target_lengths, reduction), log_probs)
    (log_probs_grad,) = pull(gradient)
    return log_probs_grad.clone(memory_format=torch.contiguous_format)


ctc_loss_op_backward.register_fake(
    lambda log_probs, targets, lengths, target_lengths, reduction, gradient: torch.empty_like(log_probs, memory_format=torch.contiguous_format)
)


def ctc_loss_op_setup(ctx, inputs, output):
    log_probs, targets, lengths, target_lengths, reduction = inputs
    ctx.save_for_backward(log_probs, targets.clone(), lengths.clone(), target_lengths.clone())
    ctx.reduction = reduction


def ctc_loss_op_gradient(ctx, gradient):
    log_probs, targets, lengths, target_lengths = ctx.saved_tensors
    found = ctc_loss_op_backward(log_probs, targets, lengths, target_lengths, ctx.reduction, gradient)
    return found, None, None, None, None


ctc_loss_op.register_autograd(ctc_loss_op_gradient, setup_context=ctc_loss_op_setup)


@torch.compile
def losses(
    log_probs,
    targets,
    lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    reduction: str = "mean",
):
    return ctc_loss_op(log_probs, targets, lengths, target_lengths, reduction)


torch.manual_seed(0)
log_probs = torch.randn(16, 3, 6).log_softmax(-1)
targets = torch.tensor([[1, 2, 2], [5, 4, 0], [3, 3, 1]])
lengths, target_lengths = torch.tensor([16, 12, 14]), torch.tensor([3, 2, 3])
print(losses(log_probs, targets, lengths, target_lengths, "none"))
