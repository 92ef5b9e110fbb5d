"""`python -m queue_engine`: the daemon, which takes nsqd's flags."""

from queue_engine.daemon.program import main

if __name__ == "__main__":
    main()
