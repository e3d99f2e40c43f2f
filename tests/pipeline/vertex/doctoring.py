"""What the tests of `doctor` share: what is found in the project on the server."""

from pipeline.vertex.doctor import examine
from pipeline.vertex.doctor.questions import OK, Api


def found(vertex, **parameters):
    """Every finding for a run with these parameters."""
    case, (_, findings) = examine.make_case(vertex.environment, parameters)
    groups = examine.examine(case, Api(vertex.environment))
    return [*findings, *(finding for _, group in groups for finding in group)]


def only(findings, state):
    """The one finding with this state; all others must be OK."""
    others = [finding for finding in findings if finding.state != OK]
    assert [finding.state for finding in others] == [state], others
    return others[0]
