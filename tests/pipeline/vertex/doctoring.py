"""What the tests of `doctor` share: what is found in the project on the server."""

from pipeline.vertex.doctor import examine
from pipeline.vertex.doctor.api import Api
from pipeline.vertex.doctor.findings import OK
from tests.vertex import PROJECT

TENSORBOARD = f"projects/{PROJECT}/locations/us-central1/tensorboards/7"
NETWORK = "projects/123456789/global/networks/main"


def found(vertex, **parameters):
    """Every finding for a run with these parameters."""
    case, settings = examine.make_case(vertex.environment, parameters)
    groups = [settings, *examine.examine(case, Api(vertex.environment))]
    return [finding for group in groups for finding in group.findings]


def only(findings, state):
    """The one finding with this state; all others must be OK."""
    others = [finding for finding in findings if finding.state != OK]
    assert [finding.state for finding in others] == [state], others
    return others[0]
