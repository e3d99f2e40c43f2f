"""Vertex AI and the other APIs of Google Cloud: requests to them, and a run as the API describes it."""

from trainer.doors import opened

__all__ = [
    "CONSOLE",  # the address of Google's console
    "REPOSITORY",  # the syntax of an address in Artifact Registry
    "TIMEOUT_S",  # how long a request may take
    "Api",  # Google's APIs, asked with this machine's credentials
    "Run",  # a pipeline run as Vertex AI describes it
    "UnansweredError",  # nobody answers a question about a project
    "VertexRegion",  # a project and a region, with the address of its API
    "api_session",  # a session that sends this machine's credentials
    "brief_error",  # the type and message of an error in one line
    "check_api_address",  # refuses an address that is no API's
    "has_cached_tasks",  # whether a pipeline takes results from the cache
    "message_as_json",  # a message of the API as JSON
    "parent_of",  # the prefix of the names of all resources in a region
    "reported_errors",  # turns the errors of Google's libraries into mistakes
    "retried",  # repeats a request after errors that pass
    "run_link",  # the console's page of a run
    "service_address",  # the address of an API without regions
    "service_client",  # a client of Vertex AI's API
    "state_of",  # the state of a run or task in plain words
    "titles_of",  # the titles of a run's tasks
]
__getattr__ = opened(__name__, __file__)
