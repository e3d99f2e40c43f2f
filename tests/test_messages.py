"""The messages that users meet most are those of messages.txt; `python -m tests.messages` writes them anew.

Other tests assert the kind of an error and the value that it names, so that a sentence is changed in one file.
"""

from tests import messages


def test_messages_are_those_of_the_file():
    assert messages.told() == messages.FILE.read_text()
