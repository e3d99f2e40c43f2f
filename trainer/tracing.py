"""Tracing of functions to TensorFlow graphs."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def without_autograph(function: Function) -> Function:
    """Decorate a function whose control flow does not depend on tensors, so that it is traced without AutoGraph.

    The graph is the same. AutoGraph would rewrite its source and that of all functions it calls, which takes
    seconds in every process.
    """
    return cast(Function, tf.autograph.experimental.do_not_convert(function))
