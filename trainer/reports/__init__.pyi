from .data_comparison import (
    ComparedData as ComparedData,
    DataStatement as DataStatement,
    write_data_comparison as write_data_comparison,
)
from .history_page import HistoryEntry as HistoryEntry, HistoryMove as HistoryMove, write_history as write_history
from .pages import counts_text as counts_text
from .report import (
    write_comparison as write_comparison,
    write_curve as write_curve,
    write_preview as write_preview,
    write_readings as write_readings,
    write_report as write_report,
    write_unneeded as write_unneeded,
)
from .run_page import write_run as write_run
from .score_tables import comparable_scores as comparable_scores, decision_page as decision_page
from .sentences import REGISTERS_NOTHING as REGISTERS_NOTHING
from .sweep_page import write_sweep as write_sweep
from .terminal import print_comparison as print_comparison, print_evaluation as print_evaluation
from .version_summary import short_gain as short_gain, summary_lines as summary_lines
