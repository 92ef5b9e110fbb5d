"""`python -m tests.support.references` makes every part of a Markdown file that is made from the code anew."""

import os

import django


def main() -> None:
    # Before the imports: modules of commands import Django's models.
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.support.settings"
    django.setup()
    from tests.support.references.all_references import REFERENCES
    from tests.support.references.generated import ROOT

    for reference in REFERENCES:
        path = ROOT / reference.path
        before = path.read_text()
        after = reference.renewed(before)
        if after != before:
            path.write_text(after)
            print(f"{reference.path}: {reference.name}")


if __name__ == "__main__":
    main()
