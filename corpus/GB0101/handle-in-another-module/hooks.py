handle = None


def watch(tensor):
    global handle
    handle = tensor.register_hook(lambda grad: grad * 2)
