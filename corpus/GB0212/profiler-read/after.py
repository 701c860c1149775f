import torch


def f(x):
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        y = f_part_1(x)
    y_1 = f_part_2(y)
    len_profile_function_events = len(profile.function_events)
    return f_part_3(y_1, len_profile_function_events)


@torch.compile
def f_part_1(x):
    y = x.sin() * 2
    return y


@torch.compile
def f_part_2(y):
    y_1 = y + 1
    return y_1


@torch.compile
def f_part_3(y_1, len_profile_function_events):
    return y_1, len_profile_function_events > 0


print(f(torch.ones(3)))
