"""Expressions of unix-cron that come at some time, and their edges."""

import pytest

from pipeline.vertex.cron import check_cron
from trainer.errors import UserError


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "0 3 * * 1",
        "*/15 0-23/2 1,15 JAN-mar sun",
        "59 23 31 12 7",
        "0 0 29 2 *",
        "0 0 31 2 1",  # on Mondays too
        "0 0 31 2-4 *",  # in March
        "5/10 * * * *",
    ],
)
def test_times_that_come_are_accepted(expression):
    check_cron(expression)


@pytest.mark.parametrize(
    "expression", ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 0 *", "* * * * 8", "0 0 30 2 *"]
)
def test_times_that_never_come_are_refused(expression):
    with pytest.raises(UserError, match=r"it must be from|never comes"):
        check_cron(expression)


@pytest.mark.parametrize(
    "expression", ["", "@weekly", "* * * *", "a * * * *", "1- * * * *", ", * * * *", "-1 * * * *"]
)
def test_what_is_no_expression_is_refused(expression):
    with pytest.raises(UserError, match=r"^cron "):
        check_cron(expression)
