# SPDX-License-Identifier: Apache-2.0
"""What may be bound: torch tensors, numpy arrays, writable buffers, raw addresses.

In: an object and the buffer that the plan wants. Out: its address and bytes, or WrongTensor with the cause and the cure.
Neither torch nor numpy is imported: who passes such an object has it.
"""

import ctypes

from .errors import Fault, Status, WrongTensor

# Plan's word: what torch calls it; what numpy calls it, plain bits of the same width included where numpy has no type.
_TYPES = {
    "bool": ("bool", ("bool",)),
    "u8": ("uint8", ("uint8",)),
    "i8": ("int8", ("int8",)),
    "i16": ("int16", ("int16",)),
    "u16": ("uint16", ("uint16",)),
    "i32": ("int32", ("int32",)),
    "u32": ("uint32", ("uint32",)),
    "i64": ("int64", ("int64",)),
    "u64": ("uint64", ("uint64",)),
    "f16": ("float16", ("float16",)),
    "bf16": ("bfloat16", ("bfloat16", "uint16")),
    "f32": ("float32", ("float32",)),
    "f64": ("float64", ("float64",)),
    "f8e4m3": ("float8_e4m3fn", ("float8_e4m3fn", "uint8")),
    "f8e5m2": ("float8_e5m2", ("float8_e5m2", "uint8")),
}
WORDS = {torch: word for word, (torch, _) in _TYPES.items()}  # torch's name: the plan's word


def torch_name(dtype):
    return str(dtype).rpartition(".")[2]


def _refuse(buffer, status, text):
    raise WrongTensor(
        Fault(
            status=status,
            buffer=buffer.name,
            what=f"{buffer.side} buffer '{buffer.name}' is {buffer.dtype} {list(buffer.shape)} in the plan; {text}",
        )
    )


def _shape(buffer, shape):
    if tuple(shape) != buffer.shape:
        _refuse(buffer, Status.WRONG_SIZE, f"the tensor has shape {list(shape)}")


def _torch(buffer, tensor, device):
    if hasattr(tensor, "to_local"):  # a DTensor: the plan speaks of this rank's part
        tensor = tensor.to_local()
    tensor = tensor.detach()
    if tensor.is_meta:
        _refuse(buffer, Status.INVALID_ARGUMENT, "the tensor is on the meta device and has no memory")
    if str(tensor.layout) != "torch.strided":
        _refuse(buffer, Status.INVALID_ARGUMENT, f"the tensor's layout is {tensor.layout}; bind a strided one")
    if tensor.device.type != device:
        _refuse(buffer, Status.INVALID_ARGUMENT, f"the tensor is on {tensor.device}; this context needs it on {device}")
    word = WORDS.get(torch_name(tensor.dtype), torch_name(tensor.dtype))
    if word != buffer.dtype:
        _refuse(buffer, Status.INVALID_ARGUMENT, f"the tensor is {word}")
    _shape(buffer, tensor.shape)
    if not tensor.is_contiguous():
        _refuse(
            buffer,
            Status.INVALID_ARGUMENT,
            f"the tensor has strides {list(tensor.stride())}; bind its storage, or describe it in the layout",
        )
    return tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor


def _numpy(buffer, array, device):
    if device != "cpu":
        _refuse(buffer, Status.INVALID_ARGUMENT, f"a numpy array is in host memory; this context needs {device}")
    if array.dtype.name not in _TYPES[buffer.dtype][1]:
        _refuse(
            buffer,
            Status.INVALID_ARGUMENT,
            f"the array is {array.dtype.name}; it must be {' or '.join(_TYPES[buffer.dtype][1])}",
        )
    if not array.dtype.isnative:
        _refuse(buffer, Status.INVALID_ARGUMENT, "the array's byte order is not this machine's")
    _shape(buffer, array.shape)
    if not array.flags.c_contiguous:
        _refuse(
            buffer, Status.INVALID_ARGUMENT, f"the array has strides {list(array.strides)}; it must be C-contiguous"
        )
    if buffer.side == "infer" and not array.flags.writeable:
        _refuse(buffer, Status.INVALID_ARGUMENT, "the array is read-only, and inference buffers are written")
    return array.ctypes.data, array.nbytes, array


def address(buffer, thing, nbytes, device):
    """Returns (address, bytes, what to keep alive)."""
    if isinstance(thing, int):
        if nbytes is None:
            _refuse(buffer, Status.INVALID_ARGUMENT, "a raw address needs nbytes=")
        return thing, nbytes, None
    if nbytes is not None:
        _refuse(buffer, Status.INVALID_ARGUMENT, "nbytes= goes with a raw address only")
    if hasattr(thing, "data_ptr") and hasattr(thing, "stride"):
        return _torch(buffer, thing, device)
    if hasattr(thing, "__array_interface__") and hasattr(thing, "flags"):
        return _numpy(buffer, thing, device)
    try:
        view = memoryview(thing)
        raw = (ctypes.c_char * view.nbytes).from_buffer(view) if view.nbytes else None
    except (TypeError, ValueError) as error:
        _refuse(
            buffer,
            Status.INVALID_ARGUMENT,
            f"{type(thing).__name__} cannot be bound ({error}); give a torch tensor, a numpy array, a writable buffer, "
            "or an address with nbytes=",
        )
    return (ctypes.addressof(raw) if raw is not None else 0), view.nbytes, (view, raw)
