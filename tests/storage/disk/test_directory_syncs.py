"""One sync of a directory serves all whose names changed before it began."""

import errno
from pathlib import Path

from queue_engine.storage.disk.directory_syncs import DirectorySyncs
from tests.support.disks.files import FaultyFiles
from tests.support.stores.background import HeldBackground


def test_changes_before_a_sync_begins_share_it(tmp_path: Path) -> None:
    files, worker = FaultyFiles(), HeldBackground()
    syncs = DirectorySyncs(str(tmp_path), files, worker)
    first, second = syncs.sync(), syncs.sync()
    assert first is second
    worker.work()
    later = syncs.sync()
    assert later is not first, "its names may have changed while the sync was under way"
    worker.answer()
    assert (first.done, later.done) == (True, False)
    worker.finish()
    assert (later.done, later.error) == (True, None)


def test_a_sync_that_fails_is_not_shared_any_more(tmp_path: Path) -> None:
    files, worker = FaultyFiles(), HeldBackground()
    syncs = DirectorySyncs(str(tmp_path), files, worker)
    files.fail("sync", errno.EIO)
    first = syncs.sync()
    worker.finish()
    assert isinstance(first.error, OSError)
    files.heal()
    again = syncs.sync()
    worker.finish()
    assert again.error is None
