import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, Field, field_validator, model_validator

from simcluster.document import (
    Bytes,
    Document,
    Duration,
    Figure,
    Name,
    PositiveFloat,
    PositiveInt,
    Refused,
    Section,
    Unsupported,
    validate,
    validate_data,
)
from simcluster.errors import PlanError, Problem, ScenarioError


class Precision(Enum):
    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class Cluster(Section):
    use: str
    hosts: PositiveInt
    changes: tuple[str, ...] = ()


class Schedule(Section):
    kind: Literal["gpipe", "1f1b"] = "1f1b"
    stages: PositiveInt | Literal["auto"] = "auto"


class Mesh(Section):
    data: PositiveInt = 1
    tensor: PositiveInt = 1

    @model_validator(mode="after")
    def _fits(self) -> "Mesh":
        if self.data * self.tensor > 8:
            raise Refused(
                f"data {self.data} x tensor {self.tensor} is above 8", path="tensor", hint="use less"
            )
        if self.data == 7:
            raise ValueError("7 is no size for an axis")
        if self.data == 5:
            raise Refused(Problem("data is 5", path="data"), Problem("tensor follows", path="tensor"))
        if self.data == 3:
            raise PlanError("a plan of 3", path="parallel.mesh.data")
        return self


class Ring(Section):
    kind: Literal["ring"]
    chunks: int


class Tree(Section):
    kind: Literal["tree"]
    branches: int
    pipelined: bool = False


class Parallel(Section):
    mesh: Mesh = Field(default=Mesh(), validation_alias=AliasChoices("mesh", "device_matrix"))
    schedule: str | Schedule = "1f1b"
    fusion: Unsupported = None
    overlap: bool = False
    algorithm: Ring | Tree | None = None
    tagged: Annotated[Ring | Tree, Field(discriminator="kind")] | None = None
    axes: dict[str, PositiveInt] = Field(default={})
    rules: tuple[Ring, ...] = ()
    mixed: list[str] | str | Schedule | None = None
    pair: tuple[int, str] = (1, "")
    nested: Union["Parallel", None] = None
    few: list[int] = Field(default=[1, 2], min_length=2, max_length=3)
    form: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    even: Annotated[int, Field(multiple_of=2)] = 2
    window: Annotated[int, Field(ge=1, le=8)] = 1
    level: Literal[0, 1, 2] = 0


class Scenario(Section):
    simcluster: Literal[1] = 1
    name: Name = "demo"
    cluster: Cluster = Cluster(use="x", hosts=1)
    parallel: Parallel = Parallel()
    precision: Precision = Precision.BF16
    memory: Figure[Bytes] | None = None
    timeout: Duration | Literal["auto"] = "auto"
    rate: PositiveFloat = 1.0
    out: Path = Path()

    @field_validator("name")
    @classmethod
    def _is_good(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("'bad' is a bad name")
        return name


def refusals(text: str, model: type[Section] = Scenario) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        validate(Document.parse(text, "f.yaml"), model)
    return [
        f"{problem.where}: {problem.message}".removeprefix("f.yaml:") for problem in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # unknown and missing keys
        ("nam: x", "1:1: unknown key 'nam'; did you mean 'name'?"),
        ("parallel: {mesg: {}}", "1:12: unknown key 'mesg'; did you mean 'mesh'?"),
        ("parallel: {Overlap: true}", "1:12: unknown key 'Overlap'; did you mean 'overlap'?"),
        ("parallel: {device_matrx: {}}", "1:12: unknown key 'device_matrx'; did you mean 'device_matrix'?"),
        ("parallel: {fusio: 1}", "1:12: unknown key 'fusio'; known: algorithm, axes, device_matrix"),
        ("cluster: {use: x, hosts: 1, zzz: 1}", "1:29: unknown key 'zzz'; known: changes, hosts, use"),
        (
            "parallel: {mesh: {data:8}}",
            "1:19: unknown key 'data:8'; is a space missing after ':'? did you mean 'data'?",
        ),
        ("parallel: {mesh: {1: 2}}", "1:19: unknown key '1'; known: data, tensor"),
        ("name: x\ncluster:\n  use: x", "2:1: 'hosts' is missing; write an integer of at least 1"),
        ("parallel: {rules: [{kind: ring}]}", "1:20: 'chunks' is missing; write an integer"),
        ("parallel: {pair: [1]}", "1:12: item 2 of the list is missing; write text"),
        # wrong types
        ("parallel: {overlap: on}", "1:21: 'on' is text; write true or false"),
        ("parallel: {overlap: 1}", "1:21: 1 is a number; write true or false"),
        ("cluster: {use: x, hosts: '4'}", "1:26: '4' is text; write 4 without quotes"),
        ("cluster: {use: x, hosts: four}", "1:26: 'four' is text; write an integer of at least 1"),
        ("cluster: {use: x, hosts: 1.0}", "1:26: 1.0 is not an integer; write 1"),
        ("cluster: {use: x, hosts: 1e6}", "1:26: 1000000.0 is not an integer; write 1000000"),
        ("cluster: {use: x, hosts: 1.5}", "1:26: 1.5 is not an integer; write an integer of at least 1"),
        ("cluster: {use: x, hosts: true}", "1:26: true is a boolean; write an integer of at least 1"),
        ("cluster: {use: x, hosts: }", "1:19: no value is given; write an integer of at least 1"),
        ("cluster: {use: 4, hosts: 1}", "1:16: 4 is a number; write it as text, in quotes"),
        ("cluster: {use: x, hosts: 1, changes: a}", "1:38: 'a' is text; write a list"),
        ("cluster: [1]", "1:1: found a list; write a mapping with the keys use, hosts, changes"),
        ("cluster:", "1:1: no value is given; write a mapping with the keys use, hosts, changes"),
        (
            "parallel: 4",
            "1:11: 4 is a number; write a mapping with the keys mesh, schedule, overlap, algorithm, tagged",
        ),
        ("parallel: {axes: [a]}", "1:12: found a list; write a mapping"),
        ("parallel: {axes: {3: 1}}", "1:19: 3 is a number; write it as text, in quotes"),
        ("rate: 'fast'", "1:7: 'fast' is text; write a number above 0"),
        ("rate: .nan", "1:7: .nan is not a finite number; write a number above 0"),
        ("rate: -.inf", "1:7: -.inf is not a finite number; write a number above 0"),
        ("rate: true", "1:7: true is a boolean; write a number above 0"),
        ("out: 5", "1:6: 5 is a number; write text"),
        # closed sets
        (
            "precision: bf61",
            "1:12: 'bf61' is not accepted; did you mean 'bf16'? Accepted: 'bf16', 'fp16' or 'fp32'",
        ),
        (
            "precision: BF16",
            "1:12: 'BF16' is not accepted; did you mean 'bf16'? Accepted: 'bf16', 'fp16' or 'fp32'",
        ),
        ("precision: int8", "1:12: 'int8' is not accepted; write 'bf16', 'fp16' or 'fp32'"),
        ("precision: 16", "1:12: 16 is not accepted; write 'bf16', 'fp16' or 'fp32'"),
        ("precision: [bf16]", "1:1: found a list; write 'bf16', 'fp16' or 'fp32'"),
        ("simcluster: 2", "1:13: 2 is not accepted; write 1"),
        ("parallel: {level: 3}", "1:19: 3 is not accepted; write 0, 1 or 2"),
        ("parallel: {level: '1'}", "1:19: '1' is not accepted; write 0, 1 or 2"),
        # out of range
        ("cluster: {use: x, hosts: 0}", "1:26: 0 is too small; write an integer of at least 1"),
        ("rate: 0", "1:7: 0 is too small; write a number above 0"),
        ("parallel: {window: 9}", "1:20: 9 is too large; write an integer from 1 to 8"),
        ("parallel: {even: 3}", "1:18: 3 is not accepted; write an integer divisible by 2"),
        ("parallel: {few: [1]}", "1:12: the list has 1 item; write at least 2"),
        ("parallel: {few: [1, 2, 3, 4]}", "1:12: the list has 4 items; write at most 3"),
        ("parallel: {pair: [1, a, 2]}", "1:12: the list has 3 items; write at most 2"),
        ("name: ''", "1:7: '' has 0 characters; write at least 1"),
        ("parallel: {form: A1}", "1:18: 'A1' does not have the form ^[a-z]+$"),
        # unions
        (
            "parallel: {schedule: 4}",
            "1:22: 4 is a number; write text or a mapping with the keys kind, stages",
        ),
        (
            "parallel: {schedule: [1]}",
            "1:12: found a list; write text or a mapping with the keys kind, stages",
        ),
        ("parallel: {schedule: {kind: 1f1p}}", "1:29: '1f1p' is not accepted; did you mean '1f1b'?"),
        ("parallel: {schedule: {stages: 0}}", "1:31: 0 is too small; write an integer of at least 1"),
        ("parallel: {schedule: {stages: atuo}}", "1:31: 'atuo' is not accepted; did you mean 'auto'?"),
        (
            "parallel: {schedule: {stages: many}}",
            "1:31: 'many' is not accepted; write an integer of at least 1 or",
        ),
        (
            "parallel: {schedule: {stages: [1]}}",
            "1:23: found a list; write an integer of at least 1 or 'auto'",
        ),
        (
            "parallel: {mixed: 7}",
            "1:19: 7 is a number; write a list, text or a mapping with the keys kind, stages",
        ),
        ("parallel: {mixed: [a, 7]}", "1:23: 7 is a number; write it as text, in quotes"),
        ("parallel: {mixed: {stages: 0}}", "1:28: 0 is too small; write an integer of at least 1"),
        ("parallel: {algorithm: {kind: tree, branches: x}}", "1:46: 'x' is text; write an integer"),
        ("parallel: {algorithm: ring}", "1:23: 'ring' is text; write a mapping"),
        ("parallel: {tagged: {kind: tree, branches: x}}", "1:43: 'x' is text; write an integer"),
        (
            "parallel: {tagged: {kind: tre}}",
            "1:27: 'tre' is not accepted; did you mean 'tree'? Accepted: 'ring' or",
        ),
        ("parallel: {tagged: {chunks: 1}}", "1:12: 'kind' is missing; write 'ring' or 'tree'"),
        ("parallel: {tagged: 1}", "1:20: 1 is a number; write a mapping with kind: 'ring' or 'tree'"),
        ("timeout: 5", "1:10: 5 is not accepted; write a number with a unit such as '1.5 us' or 'auto'"),
        ("timeout: 5 parsec", "1:10: unknown unit 'parsec'; write for example '1.5 us'"),
        ("timeout: Auto", "1:10: 'Auto' is not accepted; did you mean 'auto'?"),
        ("memory: 80", "1:9: 80 has no unit; write for example '64 GiB'"),
        # validators, later work, other names
        ("name: bad", "1:7: 'bad' is a bad name"),
        ("parallel: {mesh: {data: 4, tensor: 4}}", "1:36: data 4 x tensor 4 is above 8; use less"),
        ("parallel: {mesh: {data: 7}}", "1:12: 7 is no size for an axis"),
        ("parallel: {fusion: {}}", "1:12: 'fusion' is not supported yet"),
        ("parallel: {fusion: }", "1:12: 'fusion' is not supported yet"),
        ("parallel: {device_matrix: {tensor: 0}}", "1:36: 0 is too small; write an integer of at least 1"),
        (
            "parallel: {mesh: {}, device_matrix: {}}",
            "1:22: 'device_matrix' is another name of 'mesh'; keep one of them",
        ),
        ("parallel: {nested: {nested: {schedule: {stages: 0}}}}", "1:49: 0 is too small"),
    ],
)
def test_one_mistake(text, expected):
    found = refusals(text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_a_validator_may_refuse_several_keys():
    assert refusals("parallel:\n  mesh: {data: 5, tensor: 1}") == ["2:16: data is 5", "2:27: tensor follows"]


def test_a_refused_path_may_hold_indexes_and_dots():
    class Rules(Section):
        rules: dict[str, tuple[int, ...]]

        @model_validator(mode="after")
        def _refuse(self) -> "Rules":
            raise Refused("no", path="rules.layers.*.mlp.1")

    assert refusals("rules: {'layers.*.mlp': [1, 2]}", Rules) == ["1:29: no"]


def test_errors_of_ours_raised_inside_are_placed():
    with pytest.raises(PlanError) as caught:
        validate(Document.parse("parallel: {mesh: {data: 3}}", "f.yaml"), Scenario)
    assert str(caught.value).startswith("f.yaml:1:25: a plan of 3\n    1 | parallel")


MANY = """\
simcluster: 1
nam: x
precision: bf61
parallel:
  mesh: {tensor: 0}
  fusion: {}
  schedule:
    stages: 0
    kind: 1f1p
  overlap: on
cluster:
  hosts: 0
  cub: 353
"""


def test_all_mistakes_in_document_order_each_with_its_line():
    with pytest.raises(ScenarioError) as caught:
        validate(Document.parse(MANY, "f.yaml"), Scenario)
    text = str(caught.value)
    assert [line.split(": ")[0] for line in text.splitlines() if line.startswith("f.yaml")] == [
        f"f.yaml:{place}"
        for place in ("2:1", "3:12", "5:18", "6:3", "8:13", "9:11", "10:12", "11:1", "12:10", "13:3")
    ]
    assert (
        "f.yaml:13:3: unknown key 'cub'; known: changes, hosts, use\n    13 |   cub: 353\n       |   ^"
        in text
    )
    for problem in caught.value.problems:
        assert problem.excerpt.count("\n") == 1
        assert problem.path


def test_a_key_missing_at_the_top_shows_no_line():
    class Wanting(Section):
        cluster: Cluster

    with pytest.raises(ScenarioError) as caught:
        validate(Document.parse("{}", "f.yaml"), Wanting)
    assert (
        str(caught.value)
        == "f.yaml:1:1: 'cluster' is missing; write a mapping with the keys use, hosts, changes"
    )


def test_a_setting_is_named_instead_of_a_line():
    document = Document.parse("parallel: {mesh: {data: 2}}", "f.yaml")
    changed = document.with_value("parallel.mesh.tensor", "x").with_value("cluster", "{hosts: 1, uze: x}")
    with pytest.raises(ScenarioError) as caught:
        validate(changed, Scenario)
    assert str(caught.value).splitlines() == [
        "--set parallel.mesh.tensor=x: 'x' is text; write an integer of at least 1",
        "--set cluster={hosts: 1, uze: x}: 'use' is missing; write text",
        "--set cluster={hosts: 1, uze: x}: unknown key 'uze'; did you mean 'use'?",
    ]


def test_mistakes_behind_an_alias_are_found_where_they_are_written():
    found = refusals("cluster: {use: x, hosts: 1}\nparallel: {mesh: &m {data: 0}, nested: {mesh: *m}}")
    assert found == ["2:28: 0 is too small; write an integer of at least 1"] * 2


def test_a_valid_document():
    scenario = validate(
        Document.parse("cluster: {use: a, hosts: 2}\nparallel: {schedule: {stages: 4}}"), Scenario
    )
    assert scenario.cluster == Cluster(use="a", hosts=2)
    assert scenario.parallel.schedule == Schedule(stages=4)


def test_plain_data_have_key_paths():
    with pytest.raises(ScenarioError) as caught:
        validate_data(
            {"parallel": {"rules": [{"kind": "ring"}], "mesg": 1}, "rate": "x"}, Scenario, "scenario"
        )
    assert str(caught.value).splitlines() == [
        "scenario: parallel.rules.0.chunks: 'chunks' is missing; write an integer",
        "scenario: parallel.mesg: unknown key 'mesg'; did you mean 'mesh'?",
        "scenario: rate: 'x' is text; write a number above 0",
    ]
    with pytest.raises(ScenarioError, match=r"^rate: 'x' is text"):
        validate_data({"rate": "x"}, Scenario)


def test_sections_may_stand_in_plain_data():
    assert validate_data({"cluster": Cluster(use="a", hosts=2)}, Scenario).cluster.hosts == 2


JARGON = re.compile(
    r"Input should|pydantic|https:|valid dictionary|\binstance|Value error|\bunion|\btag\b|Error"
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.sampled_from(["", "x", "on", "auto", "4", "bf61", "tree", "80 GB"]),
    st.builds(list),
    st.lists(st.integers(0, 2), max_size=4),
    st.dictionaries(st.sampled_from(["kind", "use", "data", "stages", "x"]), st.integers(0, 2), max_size=2),
)
PATHS = [
    *(("parallel", name) for name in Parallel.model_fields),
    ("parallel",),
    ("parallel", "schedule", "stages"),
    ("parallel", "nested", "tagged"),
    ("parallel", "rules", "x"),
    *((name,) for name in Scenario.model_fields),
    ("cluster", "hosts"),
    ("memory", "value"),
]


@settings(max_examples=120)
@given(st.dictionaries(st.sampled_from(PATHS), VALUES, min_size=1, max_size=4))
def test_whatever_is_written_the_answer_is_in_our_words(changes):
    data: dict = {}
    for path, value in changes.items():
        place = data
        for key in path[:-1]:
            inner = place.setdefault(key, {})
            place = inner if isinstance(inner, dict) else place
        place[path[-1]] = value
    try:
        validate_data(data, Scenario)
    except ScenarioError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.message
            assert not JARGON.search(problem.message), problem.message
    except PlanError:
        pass  # a mesh of 3, raised by the validator itself
