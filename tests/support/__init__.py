"""What several tests share: a clock that a test moves, real servers, raw clients, disks with faults."""
