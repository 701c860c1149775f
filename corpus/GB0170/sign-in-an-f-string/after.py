import torch


@torch.library.custom_op("before::print_report", mutates_args=())
def print_report(x: torch.Tensor) -> None:
    print(f"sign: {'plus' if x.sum() > 0 else 'minus'}")


print_report.register_fake(lambda x: None)
print_report.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def report(x):
    print_report(x)
    return x * 2


print(report(torch.ones(3)), report(-torch.ones(3)))
