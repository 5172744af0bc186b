"""Printed texts that lead to an entry of the catalogue: for each id, pairs of a text and its source."""

from ddpkit.diagnosis.catalogue.built import source_files
from ddpkit.diagnosis.catalogue.reading import Example, read_file

EXAMPLES: dict[str, tuple[Example, ...]] = {
    entry: examples
    for name, content in source_files().items()
    for entry, examples in read_file(content.decode(), name).examples.items()
    if examples
}
