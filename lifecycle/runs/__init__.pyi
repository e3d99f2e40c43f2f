from .fallback import (
    REGIONAL as REGIONAL,
    Place as Place,
    accelerator_names as accelerator_names,
    fall_back as fall_back,
    next_accelerators as next_accelerators,
    next_run_id as next_run_id,
    step_without_machine as step_without_machine,
)
from .needs import Finding as Finding, PlannedRun as PlannedRun, State as State, ask_all as ask_all
from .outcome import End as End, report_end as report_end
from .parameters import (
    CONSOLE_FIELDS as CONSOLE_FIELDS,
    KEYWORDS as KEYWORDS,
    PARAMETERS as PARAMETERS,
    SETTINGS as SETTINGS,
    STEPS as STEPS,
    Values as Values,
)
from .preflight import check_run as check_run
from .settled import RunSettings as RunSettings, settle as settle, validate_values as validate_values
from .webhook import WEBHOOK_VARIABLE as WEBHOOK_VARIABLE
