"""Collectives on topologies, against published measurements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.collectives import Algorithm, Operation
from netgain.cost.communication import (
    CollectiveCost,
    collective,
    expert_exchange,
    send,
    tensor_step,
    ways,
)
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import preset, topology_names
from netgain.hardware.topology import Topology

MIB = 1 << 20


def of(name: str, devices: int | None = None) -> Topology:
    return preset(shipped_catalogue(), name, devices)


TWO_NODES = of("nvswitch-h100", 16)


def all_reduce(name: str, ranks: int, size: float) -> CollectiveCost:
    topology = of(name)
    return collective(topology, topology.devices[:ranks], Operation.ALL_REDUCE, size)


@pytest.mark.parametrize(
    ("topology", "ranks", "mib", "ms"),
    [
        ("nvswitch-a100", 2, 64, 0.430),
        ("nvswitch-a100", 4, 64, 0.603),
        ("nvswitch-a100", 8, 64, 0.675),
        ("nvswitch-a100", 8, 16, 0.2745),
        ("nvswitch-a100", 2, 1, 0.047),
        ("nvswitch-a100", 4, 1, 0.064),
        ("nvswitch-a100", 8, 1, 0.064),
        ("nvswitch-h100", 2, 64, 0.245),
        ("nvswitch-h100", 4, 64, 0.318),
        ("nvswitch-h100", 8, 64, 0.322),
        ("nvswitch-h100", 8, 16, 0.115),
        ("nvswitch-h100", 8, 1, 0.040),
        ("bridge-a100", 4, 64, 4.27),
    ],
)
def test_published_all_reduces_are_met_within_a_fifth(
    topology: str, ranks: int, mib: int, ms: float
) -> None:
    """R18, Vidur's profiles."""
    assert all_reduce(topology, ranks, mib * MIB).seconds * 1e3 == pytest.approx(ms, rel=0.2)


@pytest.mark.parametrize(
    ("topology", "devices", "target", "ms"),
    [
        ("nvswitch-a100", 8, "m0.gpu1", 0.291),
        ("nvswitch-h100", 8, "m0.gpu1", 0.192),
        ("nvswitch-h100", 16, "m1.gpu0", 1.895),
    ],
)
def test_published_sends_are_met_within_a_tenth(
    topology: str, devices: int, target: str, ms: float
) -> None:
    """R19, 66.8 MB."""
    cost = send(of(topology, devices), "m0.gpu0", target, 66.8e6)
    assert cost.seconds * 1e3 == pytest.approx(ms, rel=0.1)


@pytest.mark.parametrize(
    ("ranks", "dispatch_us", "combine_us", "tolerance"),
    [
        (8, 77, 114, 0.25),
        (16, 118, 195, 0.1),
        (32, 155, 273, 0.1),
        (64, 173, 314, 0.1),
        (128, 192, 369, 0.1),
    ],
)
def test_published_expert_exchanges_are_met(
    ranks: int, dispatch_us: float, combine_us: float, tolerance: float
) -> None:
    """R16, DeepEP low latency on H800: 128 tokens, hidden 7168, top 8, fp8 out, bf16 back."""
    nodes = of("nvswitch-h800", ranks)
    cost = expert_exchange(nodes, nodes.devices, 128, 8, 7168)
    assert cost.dispatch_s * 1e6 == pytest.approx(dispatch_us, rel=tolerance)
    assert cost.combine_s * 1e6 == pytest.approx(combine_us, rel=tolerance)


def test_an_all_reduce_of_a_gpt3_layer_is_met_within_a_quarter() -> None:
    """R87: four A100, batch 8 x 2048 tokens x 12288 in fp16, 2.89 ms."""
    size = 8 * 2048 * 12288 * 2
    assert all_reduce("nvswitch-a100", 4, size).seconds * 1e3 == pytest.approx(2.89, rel=0.25)


def test_tp_across_bridge_pairs_loses_sevenfold_to_a_switch() -> None:
    """4.9: 4.27 against 0.60 ms."""
    bridged = all_reduce("bridge-a100", 4, 64 * MIB)
    switched = all_reduce("nvswitch-a100", 4, 64 * MIB)
    assert 5 < bridged.seconds / switched.seconds < 9
    assert "PCIe 4" in bridged.slowest


def test_doubling_tp_gains_nothing_where_latency_rules() -> None:
    """4.9, TP4 to TP8 on a decode step: 29.7 to 29.8 ms."""
    topology = of("nvswitch-a100")
    four, eight = (tensor_step(topology, topology.devices[:n], 16, 8192, 80) for n in (4, 8))
    assert eight.seconds >= four.seconds
    assert eight.all_reduce.latency_s / eight.all_reduce.seconds > 0.9


def test_a_ring_on_an_mi300x_pair_gets_one_link_and_eight_get_seven() -> None:
    two, eight = (all_reduce("mesh-mi300x", n, 64 * MIB) for n in (2, 8))
    assert two.rank_bytes_per_s == pytest.approx(0.75 * 64e9)
    assert eight.algorithm is Algorithm.DIRECT
    assert eight.rank_bytes_per_s == pytest.approx(0.75 * 448e9)


def test_in_switch_reduction_exceeds_what_a_ring_could_carry() -> None:
    large = all_reduce("nvswitch-h100", 8, 4096 * MIB)
    assert large.algorithm is Algorithm.IN_SWITCH
    assert 0.45e12 < large.busbw_bytes_per_s < 0.49e12


def test_machines_together_use_every_rail() -> None:
    nodes = of("nvswitch-h100", 32)
    found = {c.algorithm: c for c in ways(nodes, nodes.devices, Operation.ALL_REDUCE, 1024 * MIB)}
    assert found[Algorithm.HIERARCHICAL].seconds < found[Algorithm.RING].seconds / 4
    assert "InfiniBand" in found[Algorithm.RING].slowest


def test_a_whole_torus_reduces_over_all_its_links() -> None:
    torus = of("torus-v5e")
    best = collective(torus, torus.devices, Operation.ALL_REDUCE, 64 * MIB)
    assert best.algorithm is Algorithm.HIERARCHICAL
    assert best.rank_bytes_per_s == pytest.approx(0.85 * 200e9)


@pytest.mark.parametrize("operation", list(Operation))
@given(size=st.floats(0, 1e9), more=st.floats(1, 1e9))
def test_more_bytes_never_take_less_time(operation: Operation, size: float, more: float) -> None:
    group = TWO_NODES.devices[6:10]
    small = collective(TWO_NODES, group, operation, size)
    large = collective(TWO_NODES, group, operation, size + more)
    assert large.seconds >= small.seconds >= small.latency_s > 0


def test_one_device_alone_pays_nothing() -> None:
    topology = of("pcie4")
    assert collective(topology, ["m0.gpu0"], Operation.ALL_REDUCE, 1e9).seconds == 0
    assert tensor_step(topology, ["m0.gpu0"], 8, 4096, 32).seconds == 0


def test_tensor_parallel_steps_reduce_twice_a_layer_and_gather_logits_once() -> None:
    topology = of("nvswitch-h100")
    step = tensor_step(topology, topology.devices, 64, 4096, 32, logit_rows=64, vocab=128_256)
    assert step.all_reduces == 64
    assert step.all_reduce.size_bytes == 64 * 4096 * 2
    assert step.gather is not None
    assert step.gather.size_bytes == 64 * 128_256 * 2
    assert step.seconds == pytest.approx(64 * step.all_reduce.seconds + step.gather.seconds)


def test_a_node_limit_shortens_what_crosses_between_nodes() -> None:
    nodes = of("nvswitch-h800", 64)
    each = expert_exchange(nodes, nodes.devices, 4096, 8, 7168)
    once = expert_exchange(nodes, nodes.devices, 4096, 8, 7168, node_limit=4, once_per_node=True)
    assert once.between_bytes == pytest.approx(each.between_bytes / 2)
    assert once.seconds < each.seconds


def test_experts_alone_on_their_machines_exchange_over_the_network_only() -> None:
    nodes = of("nvswitch-h800", 32)
    alone = [device for device in nodes.devices if device.endswith("gpu0")]
    once = expert_exchange(nodes, alone, 128, 8, 7168, once_per_node=True)
    assert once.dispatch_bytes == once.between_bytes > 0
    assert expert_exchange(nodes, alone[:1], 128, 8, 7168).seconds == 0


def test_a_torus_two_wide_has_no_more_links_than_its_chips() -> None:
    """A v5e's 200 GB/s each way, whatever the shape of the torus."""
    torus = of("torus-v5e", 8)
    assert torus.torus == (4, 2)
    best = collective(torus, torus.devices, Operation.ALL_REDUCE, 64 * MIB)
    assert best.rank_bytes_per_s == pytest.approx(0.85 * 200e9)
    two = of("torus-v5e", 2)
    pair = collective(two, two.devices, Operation.ALL_REDUCE, 64 * MIB)
    assert pair.rank_bytes_per_s <= 0.85 * 100e9


TOPOLOGIES = [of(name) for name, _ in topology_names()]


@given(topology=st.sampled_from(TOPOLOGIES), size=st.floats(0, 1e10))
def test_an_all_reduce_never_takes_longer_than_scattering_and_gathering(
    topology: Topology, size: float
) -> None:
    group = topology.devices[:16]
    reduce, scatter, gather = (
        collective(topology, group, operation, size).seconds
        for operation in (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER)
    )
    assert reduce <= (scatter + gather) * (1 + 1e-9)


@given(
    topology=st.sampled_from(TOPOLOGIES),
    operation=st.sampled_from(
        [
            Operation.ALL_REDUCE,
            Operation.REDUCE_SCATTER,
            Operation.ALL_GATHER,
            Operation.ALL_TO_ALL,
        ]
    ),
    size=st.floats(1, 1e10),
    ranks=st.integers(2, 16),
)
def test_no_way_beats_the_links_that_leave_a_device(
    topology: Topology, operation: Operation, size: float, ranks: int
) -> None:
    """Each rank sends (n - 1) / n of the buffer at least, twice for a sum outside the switch."""
    group = topology.devices[:ranks]
    ranks = len(group)
    if ranks < 2:
        return
    peak = min(sum(edge.wire.bytes_per_s for edge in topology.out_of(device)) for device in group)
    for way in ways(topology, group, operation, size):
        twice = operation is Operation.ALL_REDUCE and way.algorithm is not Algorithm.IN_SWITCH
        least = (2 if twice else 1) * (ranks - 1) / ranks * size / peak
        assert way.seconds >= least * (1 - 1e-9), way


def test_a_group_must_be_of_the_topology_and_each_device_once() -> None:
    topology = of("pcie4")
    with pytest.raises(ConfigurationError, match="each of them once"):
        collective(topology, ["m0.gpu0", "m0.gpu0"], Operation.ALL_REDUCE, 1)
    with pytest.raises(ConfigurationError, match=r"no device 'm9\.gpu0'"):
        collective(topology, ["m0.gpu0", "m9.gpu0"], Operation.ALL_REDUCE, 1)
    with pytest.raises(ConfigurationError, match="size_bytes is -1"):
        collective(topology, topology.devices, Operation.ALL_REDUCE, -1)
