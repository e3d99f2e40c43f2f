"""How functions become graphs of TensorFlow's."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def without_autograph(function: Function) -> Function:
    """Decorate a function whose control flow depends on no tensor: it is traced as it is written.

    The graph is the same. But AutoGraph would first rewrite its source, and that of all functions it calls, which
    takes seconds in every process.
    """
    return cast(Function, tf.autograph.experimental.do_not_convert(function))
