"""The daemon as the version after this one would be, with the same formats: `python -m` this module, then its flags."""

from queue_engine.vocabulary import version

NEXT_VERSION = "0.3.0"


def main() -> None:
    # Before any other module takes it from there.
    version.VERSION = NEXT_VERSION
    version.NSQ_VERSION = f"{version.NSQD_VERSION}+penstock.{NEXT_VERSION}"
    from queue_engine.daemon import program

    program.main()


if __name__ == "__main__":
    main()
