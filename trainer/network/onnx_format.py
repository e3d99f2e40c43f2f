"""Write ONNX files: a graph of nodes and constants, as the messages of `onnx.proto` in Protocol Buffers.

The package `onnx` does the same, but importing it takes as long as a prediction. The numbers of fields and
types are from onnx.proto (github.com/onnx/onnx). `onnx.checker` reads what is written here, in the tests.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.network.arrays import SCALE, Weights

IR_VERSION, OPSET = 8, 18
"""Versions of the format and of the operators: of 2022, which all current runtimes read."""
TYPES = {np.dtype(np.float32): 1, np.dtype(np.int8): 3, np.dtype(np.int64): 7}
"""Type of a tensor -> its number in `TensorProto.DataType`."""
FLOAT, INT, STRING, INTS = 1, 2, 3, 7
"""Types of attributes, of `AttributeProto.AttributeType`."""
VARINT, BYTES, FIXED32 = 0, 2, 5
"""Types of fields on the wire."""

Chunks = list[bytes | memoryview]
"""A message in parts, so that the weights are copied once."""


class Graph:
    """A graph that grows node by node."""

    def __init__(self) -> None:
        self._nodes: list[Chunks] = []
        self._constants: list[Chunks] = []

    def constant(self, values: npt.ArrayLike, name: str = "") -> "Tensor":
        """Add an array, float32, int8 or int64. Another number becomes float32."""
        array = np.asarray(values)
        shape = array.shape
        array = np.ascontiguousarray(array if array.dtype in TYPES else array.astype(np.float32)).reshape(-1)
        name = name or f"constant_{len(self._constants)}"
        data = memoryview(array.view(np.uint8))  # type: ignore[arg-type]
        dims = [_field(1, dim) for dim in shape]
        self._constants.append(_message(*dims, _field(2, TYPES[array.dtype]), _field(8, name), _field(9, [data])))
        return Tensor(self, name)

    def node(self, operator: str, *inputs: "Operand", name: str = "", **attributes: Any) -> "Tensor":
        """Add a node with one output. None leaves out an optional input."""
        return self.split(operator, 1, *inputs, name=name, **attributes)[0]

    def split(
        self, operator: str, n_outputs: int, *inputs: "Operand", name: str = "", **attributes: Any
    ) -> "list[Tensor]":
        """Add a node with several outputs, such as `Split`."""
        name = name or f"{operator}_{len(self._nodes)}"
        names = [name] if n_outputs == 1 else [f"{name}/{index}" for index in range(n_outputs)]
        given = [
            "" if each is None else (each if isinstance(each, Tensor) else self.constant(each)).name
            for each in inputs
        ]
        fields = [*(_field(1, each) for each in given), *(_field(2, each) for each in names)]
        made = [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        self._nodes.append(_message(*fields, _field(3, name), _field(4, operator), *made))
        return [Tensor(self, each) for each in names]

    def encode(
        self,
        name: str,
        inputs: Mapping[str, Sequence[str | int]],
        outputs: Mapping[str, Sequence[str | int]],
        metadata: Mapping[str, str],
    ) -> bytes:
        """The content of the file.

        Args:
            name: of the graph.
            inputs: name -> shape of each float32 input. The name of a dimension, such as `batch`, leaves it free.
            outputs: likewise.
            metadata: key -> value, for people and programs.
        """
        graph = _message(
            *(_field(1, node) for node in self._nodes),
            _field(2, name),
            *(_field(5, constant) for constant in self._constants),
            *(_field(11, _value(*each)) for each in inputs.items()),
            *(_field(12, _value(*each)) for each in outputs.items()),
        )
        entries = (_message(_field(1, key), _field(2, value)) for key, value in metadata.items())
        operators = _message(_field(1, ""), _field(2, OPSET))
        model = _message(
            _field(1, IR_VERSION),
            _field(2, "msinet-pipelines"),
            _field(7, graph),
            _field(8, operators),
            *(_field(14, entry) for entry in entries),
        )
        return b"".join(model)


class Tensor:
    """A value of a graph, with the arithmetic of an array.

    Each operation adds a node, such as `Add` for `x + 1.0`.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def apply(self, operator: str, *others: "Operand", **attributes: Any) -> "Tensor":
        """The result of an operator with this value as its first input, such as `x.apply("Relu")`."""
        return self.graph.node(operator, self, *others, **attributes)

    def __add__(self, other: "Operand") -> "Tensor":
        return self.apply("Add", other)

    def __sub__(self, other: "Operand") -> "Tensor":
        return self.apply("Sub", other)

    def __rsub__(self, other: "Operand") -> "Tensor":
        return self.graph.node("Sub", other, self)

    def __mul__(self, other: "Operand") -> "Tensor":
        return self.apply("Mul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: "Operand") -> "Tensor":
        return self.apply("Div", other)

    def reduced(self, kind: str, *axes: int, keepdims: int = 1) -> "Tensor":
        """The `Sum`, `Min` or `Max` over some axes."""
        return self.apply(f"Reduce{kind}", np.array(axes), keepdims=keepdims)

    def expanded(self, axis: int) -> "Tensor":
        """The same values with one more axis, of length 1."""
        return self.apply("Unsqueeze", np.array([axis]))

    def as_floats(self) -> "Tensor":
        """Integers or truth values as float32."""
        return self.apply("Cast", to=TYPES[np.dtype(np.float32)])


Operand = Tensor | npt.ArrayLike | None


class OnnxLayers:
    """The convolutions of a network in a graph, with the weights of a model. Their maps are (N, C, h, w)."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._weights = graph, weights

    def convolution(self, x: Tensor, layer: str, dilation: int = 1, relu: bool = True) -> Tensor:
        """A convolution of stride 1 with zero padding, which keeps the size of an odd kernel's input."""
        pads = [self._weights[layer, "kernel"].shape[0] // 2 * dilation] * 4
        kernel, bias = self.kernel(layer), self.bias(layer)
        x = x.apply("Conv", kernel, bias, name=layer, dilations=[dilation, dilation], pads=pads)
        return x.apply("Relu") if relu else x

    def bias(self, layer: str) -> Tensor:
        """The bias of a layer, (out)."""
        return self._graph.constant(self._weights[layer, "bias"], f"{layer}/bias")

    def kernel(self, layer: str, channels: slice = slice(None)) -> Tensor:
        """The part of a kernel (k, k, in, out) for some input channels as ONNX has it, (out, in, k, k).

        Example: `slice(1024, None)` is the part for what is the same in all pixels.
        """
        kernel = self._weights[layer, "kernel"][:, :, channels].transpose(3, 2, 0, 1)
        stored = self._graph.constant(kernel, f"{layer}/kernel{channels.start or ''}")
        return (
            stored.apply("DequantizeLinear", self._weights[layer, SCALE], axis=0)
            if kernel.dtype == np.int8
            else stored
        )


def _value(name: str, shape: Sequence[str | int]) -> Chunks:
    """A `ValueInfoProto` of floats."""
    dims = [_field(1, _message(_field(2 if isinstance(dim, str) else 1, dim))) for dim in shape]
    tensor = _message(_field(1, TYPES[np.dtype(np.float32)]), _field(2, _message(*dims)))
    return _message(_field(1, name), _field(2, _message(_field(1, tensor))))


def _attribute(name: str, value: float | int | str | Sequence[int]) -> Chunks:
    if isinstance(value, str):
        return _message(_field(1, name), _field(4, value), _field(20, STRING))
    if isinstance(value, float):
        return _message(_field(1, name), _field(2, value), _field(20, FLOAT))
    if isinstance(value, int):
        return _message(_field(1, name), _field(3, value), _field(20, INT))
    return _message(_field(1, name), *(_field(8, each) for each in value), _field(20, INTS))


def _message(*fields: Chunks) -> Chunks:
    return [chunk for field in fields for chunk in field]


def _field(number: int, value: int | float | str | Chunks) -> Chunks:
    if isinstance(value, float):
        return [_varint(number << 3 | FIXED32) + struct.pack("<f", value)]
    if isinstance(value, int):
        return [_varint(number << 3 | VARINT) + _varint(value)]
    chunks: Iterable[bytes | memoryview] = [value.encode()] if isinstance(value, str) else value
    chunks = list(chunks)
    return [_varint(number << 3 | BYTES) + _varint(sum(map(len, chunks))), *chunks]


def _varint(number: int) -> bytes:
    """A number, 7 bits a byte, the lowest first. A negative one is its two's complement in 64 bits.

    Example: 300 is the bytes 172 and 2.
    """
    number &= 2**64 - 1
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])
