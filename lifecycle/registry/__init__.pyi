from .address import Address as Address
from .data_gate import DataGate as DataGate
from .register import (
    REGISTERED_NAME as REGISTERED_NAME,
    check_shared as check_shared,
    digest_of_inputs as digest_of_inputs,
    evaluate_candidate as evaluate_candidate,
    fetched_of as fetched_of,
    lineage_of as lineage_of,
    open_registry as open_registry,
    register_model as register_model,
    resolve_base_model as resolve_base_model,
    version_made_of as version_made_of,
)
from .settings import DataGateConfig as DataGateConfig, PipelineConfig as PipelineConfig
from .versions import (
    OWNER as OWNER,
    DefaultMove as DefaultMove,
    Registry as Registry,
    Version as Version,
    numbered as numbered,
)
from .vertex_registry import VertexRegistry as VertexRegistry
