"""A job of the background: its steps are done once, by whoever comes first, and its end is heard once."""

import errno

from queue_engine.storage.disk.background_job import BackgroundJob
from tests.support.stores.background import HeldBackground


def test_the_background_does_the_steps_in_order_and_then_the_end_is_heard() -> None:
    happened: list[object] = []
    background = HeldBackground()
    job = BackgroundJob(
        lambda: happened.append("write"), lambda: happened.append("sync"), then=lambda error: happened.append(error)
    )
    job.start(background)
    assert happened == []
    background.finish()
    assert (happened, job.steps_done, job.is_over) == (["write", "sync", None], 2, True)


def test_a_step_that_fails_is_the_last_one_and_steps_done_tells_which_it_was() -> None:
    heard: list[Exception | None] = []
    refused = OSError(errno.EIO, "refused")

    def fail() -> None:
        raise refused

    job = BackgroundJob(lambda: None, fail, lambda: heard.append(None), then=heard.append)
    assert job.finish() is refused
    assert (job.steps_done, job.error, heard) == (1, refused, [])
    job.ended(job.error)
    assert heard == [refused]


def test_what_the_engine_finished_is_not_done_or_heard_again_by_the_background() -> None:
    happened: list[object] = []
    background = HeldBackground()
    job = BackgroundJob(lambda: happened.append("work"), then=lambda error: happened.append(error))
    job.start(background)
    job.ended(job.finish())
    background.finish()
    assert happened == ["work", None]


def test_a_job_that_is_called_off_is_neither_done_nor_heard() -> None:
    happened: list[object] = []
    background = HeldBackground()
    job = BackgroundJob(lambda: happened.append("work"), then=lambda error: happened.append(error))
    job.start(background)
    job.call_off()
    background.finish()
    assert (happened, job.is_over) == ([], True)
