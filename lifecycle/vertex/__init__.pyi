from .api import (
    CONSOLE as CONSOLE,
    REPOSITORY as REPOSITORY,
    TIMEOUT_S as TIMEOUT_S,
    Api as Api,
    UnansweredError as UnansweredError,
    VertexRegion as VertexRegion,
    api_session as api_session,
    brief_error as brief_error,
    check_api_address as check_api_address,
    parent_of as parent_of,
    reported_errors as reported_errors,
    retried as retried,
    run_link as run_link,
    service_address as service_address,
    service_client as service_client,
)
from .run import (
    Run as Run,
    has_cached_tasks as has_cached_tasks,
    message_as_json as message_as_json,
    state_of as state_of,
    titles_of as titles_of,
)
