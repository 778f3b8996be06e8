"""Text -> marks -> models: reading YAML, validating it, and saying clearly what is wrong and where.

document = Document.read("scenarios/quickstart.yaml")
scenario = validate(document, Scenario)            # all mistakes at once, with file:line:column
raise document.located(PlanError("...", path="parallel.mesh.tensor"))
"""

from simcluster.document.catalog import CatalogSection, changed
from simcluster.document.document import Document, inline_data
from simcluster.document.figure import Figure, Provenance
from simcluster.document.file import check_readable, content_of, names_file, real_path, text_of
from simcluster.document.json_file import json_object
from simcluster.document.key_aliases import OtherNames, OtherNameSpec
from simcluster.document.pattern import generalised_name, matches
from simcluster.document.quantity import Bandwidth, Bytes, Compute, Duration, Frequency, Power, Quantity
from simcluster.document.scalar import resolve
from simcluster.document.schema import json_schema
from simcluster.document.section import (
    Fraction,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Refused,
    Section,
    Share,
    field_descriptions,
)
from simcluster.document.shape import Shape
from simcluster.document.tree import DocumentNode, Key, keys_of, merged_data, plain_nodes
from simcluster.document.unsupported import Unsupported
from simcluster.document.validation import validate, validate_data
from simcluster.document.wording import choice_phrase, count_phrase

__all__ = [
    "Bandwidth",
    "Bytes",
    "CatalogSection",
    "Compute",
    "Document",
    "DocumentNode",
    "Duration",
    "Figure",
    "Fraction",
    "Frequency",
    "Key",
    "Name",
    "NonNegativeFloat",
    "NonNegativeInt",
    "OtherNameSpec",
    "OtherNames",
    "PositiveFloat",
    "PositiveInt",
    "Power",
    "Provenance",
    "Quantity",
    "Refused",
    "Section",
    "Shape",
    "Share",
    "Unsupported",
    "changed",
    "check_readable",
    "choice_phrase",
    "content_of",
    "count_phrase",
    "field_descriptions",
    "generalised_name",
    "inline_data",
    "json_object",
    "json_schema",
    "keys_of",
    "matches",
    "merged_data",
    "names_file",
    "plain_nodes",
    "real_path",
    "resolve",
    "text_of",
    "validate",
    "validate_data",
]
