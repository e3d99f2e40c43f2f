"""Threads that map a function in order."""

from trainer.pool import map_ahead, open_pool


def test_items_are_not_begun_far_ahead_of_the_results():
    begun = []
    with open_pool(3) as pool:
        results = map_ahead(pool, lambda item: begun.append(item) or item, range(50), max_pending=6)
        for done, result in enumerate(results):
            assert done == result
            assert len(begun) <= done + 6
    assert len(begun) == 50
