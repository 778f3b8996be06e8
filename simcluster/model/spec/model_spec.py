"""The scenario's ``model:`` section: a catalog name, dimensions, or a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import GetJsonSchemaHandler, create_model, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from simcluster.document import CatalogSection, Figure, Name, PositiveInt, Refused, field_descriptions
from simcluster.errors import Problem, ScenarioError
from simcluster.model import huggingface, onnx
from simcluster.model.family_spec import FamilySpec
from simcluster.model.model import Model
from simcluster.model.spec.graph_spec import WrittenGraphSpec
from simcluster.registry import data_files, kinds

FAMILIES = kinds("simcluster.model.families", FamilySpec)
"""The families of models, by the word of the key ``family``."""

_USUAL = "llama"
"""The family of a model that names none."""

_ABOUT = {"use", "title", "source", "parameters", "hf", "onnx", "graph", "family"}


class ModelSection(CatalogSection):
    """A model: ``{use: llama3-70b}``, ``{hf: config.json}``, or its dimensions.

    Dimensions given beside ``use`` or ``hf`` override those of the model.
    """

    noun: ClassVar[str] = "model"

    title: Name | None = None
    """Display name."""

    source: Name | None = None
    """Where the dimensions of a catalog entry are published."""

    parameters: Figure[PositiveInt] | None = None
    """The published number of parameters; the number that the dimensions give must be equal."""

    hf: Path | None = None
    """A Hugging Face config.json, relative to the scenario's folder; its model type is one of those that
    ``simcluster guide imports`` lists (llama, qwen3, gemma3_text, deepseek_v3, gpt2, bert and others)."""

    onnx: Path | None = None
    """An ONNX file, relative to the scenario's folder; its nodes become operators, for any number of samples.
    Its output is trained with cross-entropy over the last dim."""

    graph: WrittenGraphSpec | None = None
    """A model written operator by operator."""

    family: str = _USUAL
    """The model family, which sets the defaults of the keys below: gpt (layer norm, GELU, learned positions,
    biases, tied embeddings) or llama (RMS norm, SwiGLU, rotary positions, no biases, untied); or a family
    with a structure and keys of its own: BERT, T5, vision transformer, residual network, Wide & Deep."""

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped models."""
        return data_files("simcluster.model.catalog")

    @model_validator(mode="after")
    def _is_complete(self) -> ModelSection:
        if self.onnx is not None or self.graph is not None:
            written = "an ONNX file" if self.onnx is not None else "a graph"
            others = sorted(self.model_fields_set - {"onnx" if self.onnx is not None else "graph", "title"})
            if others:
                listed = ", ".join(f"'{name}'" for name in others)
                raise Refused(f"{written} says all that {listed} could: leave it out", path=others[0])
            return self
        if self.hf is not None:
            if self.use is not None:
                raise Refused("give 'use' or 'hf', not both", path="hf")
            if not _alike(self.family, _USUAL):
                raise Refused("a config.json says itself what it is: leave 'family' out", path="family")
            return self
        self._of({})
        return self

    @classmethod
    def family_knows(cls, family: str, key: str) -> bool:
        """Whether models of a family have a use for a key of this section."""
        return key in _ABOUT or key in FAMILIES[family].model_fields

    def _only_known(self, family: str) -> None:
        """Refuses keys that the family has no use for."""
        problems = [
            Problem(f"a model of the family '{family}' has no '{name}'", name)
            for name in type(self).model_fields
            if name in self.model_fields_set and not self.family_knows(family, name)
        ]
        if problems:
            raise Refused(*problems)

    @property
    def called(self) -> str:
        """What people call it: its title, the catalog's name, or that of its file."""
        file = self.onnx and self.onnx.stem
        shown = "graph of the scenario" if self.graph is not None else "model by dimensions"
        return self.title or self.use or file or shown

    def build(self, folder: Path) -> Model:
        """The model; files are looked up in ``folder``. ScenarioError if one cannot be used."""
        if self.graph is not None:
            return self.graph.build()
        if self.onnx is not None:
            return _of_file("onnx", folder, self.onnx, onnx.load_onnx)
        if self.hf is not None:
            return _of_file("hf", folder, self.hf, lambda path: self._of(huggingface.dimensions(path)))
        return self._of({})

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """What a user should know of what a config.json says and the model leaves out."""
        return () if self.hf is None else huggingface.remarks(folder / self.hf)

    def _of(self, given: Mapping[str, Any]) -> Model:
        """The model from dimensions ``given`` and what this section says besides; Refused if impossible."""
        family = given.get("family", self.family)
        self._only_known(family)
        if "family" in self.model_fields_set and _alike(self.family, family):
            family = self.family
        sizes = {name: getattr(self, name) for name in self.model_fields_set - _ABOUT}
        dimensions = {name: value for name, value in given.items() if name != "family"}
        return FAMILIES[family].make(dimensions, {k: v for k, v in sizes.items() if v is not None})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema of a section, its keys described as the families have them."""
        written = super().__get_pydantic_json_schema__(schema, handler)
        for section in FAMILIES.values():
            texts = field_descriptions(section)
            for name in section.model_fields:
                for shape in (part for part in written["anyOf"] if "properties" in part):
                    shape["properties"][name].setdefault("description", texts[name])
        return written


def _alike(family: str, other: str) -> bool:
    """Whether the models of two families have one structure."""
    return FAMILIES[family].network is FAMILIES[other].network


if TYPE_CHECKING:
    ModelSpec: TypeAlias = ModelSection
else:
    ModelSpec = create_model(
        "ModelSpec",
        __base__=ModelSection,
        __module__=__name__,
        __doc__=ModelSection.__doc__,
        family=(Literal[tuple(FAMILIES)], _USUAL),
        **{
            name: (field.rebuild_annotation(), field.default)
            for section in FAMILIES.values()
            for name, field in section.model_fields.items()
        },
    )


def _of_file(key: str, folder: Path, file: Path, build: Callable[[Path], Model]) -> Model:
    """What ``build`` makes of a file in ``folder``; its refusals as ScenarioError that names the file."""
    try:
        return build(folder / file)
    except Refused as error:
        problems = (
            replace(problem, message=f"{file}: {problem.message}", path=f"model.{key}")
            for problem in error.problems
        )
        raise ScenarioError(*problems) from error
