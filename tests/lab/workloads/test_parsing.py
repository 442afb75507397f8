"""`--workload` is read strictly, and a mistake is answered with what was probably meant."""

from pathlib import Path

import pytest

from netgain.lab.workloads.distribution import Fixed, Uniform
from netgain.lab.workloads.lengths_only import LengthsOnly
from netgain.lab.workloads.registry import SYNTHETIC, parse_workload, workload_names
from netgain.lab.workloads.shared_prefix import SharedPrefix
from netgain.lab.workloads.workload import WorkloadError


def test_parameters_are_typed() -> None:
    made = parse_workload("shared-prefix:prefixes=3,zipf=1.5,in=16..32,round=yes,prefix=64")
    assert made == SharedPrefix(prefixes=3, zipf=1.5, suffix=Uniform(16, 32), round=True, prefix=64)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_description_reads_back_as_the_same_workload(name: str) -> None:
    made = parse_workload(name)
    assert parse_workload(made.description) == made


def test_a_name_alone_has_the_defaults() -> None:
    assert parse_workload("synthetic") == LengthsOnly(prompt=Fixed(256), answer=Fixed(64))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chatt", "did you mean chat\\?"),
        ("synthetic:inn=5", "did you mean in\\?"),
        ("synthetic:in=5,in=6", "given twice"),
        ("synthetic:in", "'in' is not key=value"),
        ("synthetic:in=", "'in=' is not key=value"),
        ("synthetic:in=many", "parameter in: 'many' is no distribution"),
        ("synthetic:exact=maybe", "neither true nor false"),
        ("shared-prefix:prefixes=2.5", "'2.5' is not a whole number"),
        ("shared-prefix:prefixes=0", "0 is below 1"),
        ("shared-prefix:share=1.5", "1.5 is above 1"),
        ("shared-prefix:zipf=inf", "'inf' is not a number"),
        ("azure", "needs path"),
        ("mix", "write mix:chat=0.7"),
        ("mix:nothing.yaml", "nothing.yaml: no such file"),
        ("mix:chat=much", "weight of chat is 'much'"),
        ("mix:chat=0", "weight above 0"),
        ("mix:chat=1,rag=-1", "must not be negative"),
        ("mix:chta=1", "did you mean chat\\?"),
    ],
)
def test_a_mistake_is_named(text: str, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        parse_workload(text)


def test_every_name_is_listed_where_none_is_near() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload("xyzzy")
    assert all(name in str(caught.value) for name in workload_names())


def test_a_mix_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mix.yaml"
    file.write_text(
        "classes:\n- {class: quick, workload: 'synthetic:in=64,out=4', weight: 3}\n"
        "- {workload: rag, weight: 1}\n"
    )
    by_path = parse_workload(str(file))
    assert by_path.description.startswith("mix of quick 0.75 (synthetic:in=64,out=4")
    assert "; rag 0.25 (rag:" in by_path.description
    assert parse_workload(f"mix:{file}") == by_path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("classes: [{workload: chat, wieght: 1}]", "wieght"),
        ("classes: [{workload: chat, weight: heavy}]", "Expected `float`"),
        ("classes: [", "mix.yaml"),
        ("classes: []", "at least one class"),
        ("classes: [{workload: chat}, {workload: 'chat:out=1'}]", "chat comes twice"),
    ],
)
def test_a_mistake_in_a_mix_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mix.yaml"
    file.write_text(text)
    with pytest.raises(WorkloadError, match=says):
        parse_workload(str(file))


def test_a_trace_cannot_be_a_class_of_a_mix(tmp_path: Path) -> None:
    trace = tmp_path / "a.jsonl"
    trace.write_text('{"prompt": "hi"}\n')
    file = tmp_path / "mix.yaml"
    file.write_text(f"classes: [{{workload: 'jsonl:{trace}', class: replay}}]")
    with pytest.raises(WorkloadError, match="replay a trace alone"):
        parse_workload(str(file))
