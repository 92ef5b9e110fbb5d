"""`python -m tests.support.references` makes every part of a Markdown file that is made from the code anew."""

from tests.support.references.all_references import REFERENCES
from tests.support.references.generated import ROOT


def main() -> None:
    for reference in REFERENCES:
        path = ROOT / reference.path
        before = path.read_text()
        after = reference.renewed(before)
        if after != before:
            path.write_text(after)
            print(f"{reference.path}: {reference.name}")


if __name__ == "__main__":
    main()
