"""Text -> marks -> models: reading YAML, validating it, and saying clearly what is wrong and where.

document = Document.read("scenarios/quickstart.yaml")
scenario = validate(document, Scenario)            # all mistakes at once, with file:line:column
raise document.located(PlanError("...", path="parallel.mesh.tensor"))
"""

from simcluster.document.catalog import CatalogSection, changed
from simcluster.document.document import Document, text_of
from simcluster.document.figure import Figure, Provenance
from simcluster.document.other_names import OtherNames, OtherNameSpec
from simcluster.document.quantity import Bandwidth, Bytes, Compute, Duration, Frequency, Quantity
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
)
from simcluster.document.unsupported import Unsupported
from simcluster.document.validation import validate, validate_data

__all__ = [
    "Bandwidth",
    "Bytes",
    "CatalogSection",
    "Compute",
    "Document",
    "Duration",
    "Figure",
    "Fraction",
    "Frequency",
    "Name",
    "NonNegativeFloat",
    "NonNegativeInt",
    "OtherNameSpec",
    "OtherNames",
    "PositiveFloat",
    "PositiveInt",
    "Provenance",
    "Quantity",
    "Refused",
    "Section",
    "Share",
    "Unsupported",
    "changed",
    "json_schema",
    "text_of",
    "validate",
    "validate_data",
]
