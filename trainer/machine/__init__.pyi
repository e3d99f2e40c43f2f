from .package_version import code_version as code_version
from .processes import ProcessId as ProcessId
from .progress import (
    LOG_EVERY_S as LOG_EVERY_S,
    Tracker as Tracker,
    map_ahead as map_ahead,
    open_pool as open_pool,
)
from .runtime import (
    CPU_INFO as CPU_INFO,
    announce as announce,
    available_bytes as available_bytes,
    has_own_users as has_own_users,
    is_for_tpu as is_for_tpu,
    load_openvino as load_openvino,
    load_tensorflow as load_tensorflow,
    locked_memory_is_low as locked_memory_is_low,
    multiplies_bfloat16 as multiplies_bfloat16,
    n_cpus as n_cpus,
    openvino_core as openvino_core,
    raise_locked_memory as raise_locked_memory,
)
from .untrusted import (
    Limits as Limits,
    call_untrusted as call_untrusted,
    end_untrusted as end_untrusted,
    end_with_parent as end_with_parent,
)
