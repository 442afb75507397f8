"""Topologies: who is joined by what, pairs against aggregates, what cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device, preset, topology_names
from netgain.hardware.topology import Edge, Flow, Node, NodeKind, Topology
from netgain.hardware.wire import Wire, wire

CATALOGUE = shipped_catalogue()
NAMES = [name for name, _ in topology_names()]


def of(name: str, devices: int | None = None) -> Topology:
    return preset(CATALOGUE, name, devices)


def test_a_pair_of_mi300x_gets_one_link_and_all_peers_together_seven() -> None:
    mesh = of("mesh-mi300x")
    assert mesh.pair_bytes_per_s("m0.gpu0", "m0.gpu5") == 64e9
    assert mesh.aggregate_bytes_per_s("m0.gpu0") == pytest.approx(448e9)


def test_behind_a_switch_every_pair_gets_the_full_rate() -> None:
    for name, rate in (("nvswitch-a100", 300e9), ("nvswitch-h100", 450e9), ("nvl72", 900e9)):
        switched = of(name)
        for other in switched.devices[1:]:
            assert switched.pair_bytes_per_s(switched.devices[0], other) == rate
        assert switched.aggregate_bytes_per_s(switched.devices[0]) == pytest.approx(rate)


def test_four_gpus_with_two_bridges_are_two_pairs() -> None:
    bridged = of("bridge-a100")
    assert bridged.pair_bytes_per_s("m0.gpu0", "m0.gpu1") == 300e9
    assert bridged.pair_bytes_per_s("m0.gpu1", "m0.gpu2") == 31.5e9
    assert bridged.path("m0.gpu1", "m0.gpu2").slowest.wire.name == "PCIe 4 x16"
    assert bridged.fastest_domains() == (("m0.gpu0", "m0.gpu1"), ("m0.gpu2", "m0.gpu3"))


def test_a_bridge_of_four_joins_all_four() -> None:
    assert [len(domain) for domain in of("bridge-h200-nvl").fastest_domains()] == [4]


def test_without_a_bridge_a_pair_falls_back_to_pcie() -> None:
    assert of("pcie5").pair_bytes_per_s("m0.gpu0", "m0.gpu1") == 63e9
    far = of("pcie5", 8)
    assert far.path("m0.gpu0", "m0.gpu1").slowest.wire.name == "PCIe 5 x16"
    assert far.machines == 2


def test_machines_are_joined_rail_by_rail() -> None:
    nodes = of("nvswitch-h100", 16)
    near = nodes.path("m0.gpu3", "m1.gpu3")
    assert near.bytes_per_s == 50e9
    assert [edge.target for edge in near.edges] == ["m0.nic3", "rail3", "m1.nic3", "m1.gpu3"]
    assert "spine" in [edge.target for edge in nodes.path("m0.gpu3", "m1.gpu5").edges]
    assert nodes.bisection_bytes_per_s() == pytest.approx(8 * 50e9)
    assert [len(domain) for domain in nodes.fastest_domains()] == [8, 8]


def test_one_adapter_for_a_machine_is_shared_by_its_devices() -> None:
    nodes = of("pcie4", 8)
    loads = nodes.loads(Flow(f"m0.gpu{i}", f"m1.gpu{i}", 1.0) for i in range(4))
    assert max(loads.values()) == 4


def test_inside_a_machine_data_stays_there() -> None:
    nodes = preset(CATALOGUE, "pcie4", 8, network="InfiniBand XDR", rails=4)
    path = nodes.path("m0.gpu0", "m0.gpu3")
    assert all("nic" not in edge.target for edge in path.edges)


@pytest.mark.parametrize(
    ("name", "devices", "sizes", "bisection"),
    [
        ("torus-v5e", 16, (4, 4), 2 * 4 * 50e9),
        ("torus-v5e", 256, (16, 16), 2 * 16 * 50e9),
        ("torus-v5p", 64, (4, 4, 4), 2 * 16 * 100e9),
        ("torus-v6e", 32, (8, 4), 2 * 4 * 100e9),
    ],
)
def test_a_torus_is_cut_across_its_longest_dimension(
    name: str, devices: int, sizes: tuple[int, ...], bisection: float
) -> None:
    torus = of(name, devices)
    assert torus.torus == sizes
    assert torus.bisection_bytes_per_s() == pytest.approx(bisection)


def test_a_torus_passes_data_on_and_wraps_around() -> None:
    torus = of("torus-v5e", 16)
    assert len(torus.path("tpu0.0", "tpu0.3").edges) == 1
    assert len(torus.path("tpu0.0", "tpu2.2").edges) == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_joins_every_pair_both_ways(name: str) -> None:
    topology = of(name)
    first = topology.devices[0]
    for other in topology.devices[1:]:
        assert topology.pair_bytes_per_s(first, other) == topology.pair_bytes_per_s(other, first)
        assert topology.path(first, other).latency_s > 0
    assert topology.bisection_bytes_per_s() > 0


@pytest.mark.parametrize("device", CATALOGUE.devices, ids=lambda device: device.name)
def test_every_device_of_the_catalogue_can_be_put_together(device: object) -> None:
    from netgain.hardware.device import Device

    assert isinstance(device, Device)
    topology = for_device(CATALOGUE, device, 2)
    assert len(topology.devices) == 2
    assert topology.pair_bytes_per_s(*topology.devices) > 0


@given(st.integers(1, 8))
def test_domains_part_the_devices(devices: int) -> None:
    for name in ("bridge-a100", "nvswitch-h100", "mesh-mi300x"):
        if name == "bridge-a100" and devices > 4:
            continue
        topology = of(name, devices)
        members = [device for domain in topology.fastest_domains() for device in domain]
        assert sorted(members) == sorted(topology.devices)


def test_devices_do_not_pass_on_what_is_meant_for_others() -> None:
    fast = wire(CATALOGUE, "NVLink 4")
    slow = wire(CATALOGUE, "PCIe 4 x16")
    nodes = [Node(name, NodeKind.DEVICE, 0, forwards=False) for name in "abc"]
    edges = [Edge("a", "b", fast), Edge("b", "c", fast), Edge("a", "c", slow)]
    assert Topology("line", nodes, edges).pair_bytes_per_s("a", "c") == slow.bytes_per_s


def test_the_shortest_of_equally_wide_paths_is_taken() -> None:
    one = Wire("one", 1e9, 1, 1, 1e-6, "")
    nodes = [Node(name, NodeKind.DEVICE) for name in "ad"]
    nodes += [Node(name, NodeKind.SWITCH) for name in "xyz"]
    edges = [Edge(pair[0], pair[1], one) for pair in ("ax", "xy", "yd", "az", "zd")]
    assert len(Topology("t", nodes, edges).path("a", "d").edges) == 2


def test_a_pair_that_nothing_joins_is_an_error() -> None:
    nodes = [Node(name, NodeKind.DEVICE) for name in "ab"]
    with pytest.raises(ConfigurationError, match="nothing joins a and b"):
        Topology("island", nodes, []).path("a", "b")


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match="has no device 'gpu9'"):
        of("pcie4").path("gpu9", "m0.gpu0")


def test_an_unknown_topology_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown topology 'nvswich-h100'.*nvswitch-h100"):
        of("nvswich-h100")


def test_devices_that_do_not_fill_machines_are_refused_with_what_would() -> None:
    with pytest.raises(
        ConfigurationError, match="12 devices do not fill machines of 8: give 8 or 16"
    ):
        of("nvswitch-h100", 12)
    with pytest.raises(ConfigurationError, match="0 devices"):
        of("nvswitch-h100", 0)
    with pytest.raises(ConfigurationError, match="2048 devices: give 1 to 1,024"):
        of("nvswitch-h100", 2048)


def test_an_unknown_network_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="InfiniBand"):
        preset(CATALOGUE, "nvswitch-h100", 16, network="InfinyBand NDR")


def test_a_whole_machines_network_is_shared_out_over_its_adapters() -> None:
    nodes = preset(CATALOGUE, "nvswitch-h100", 16, network="EFA p5")
    assert nodes.pair_bytes_per_s("m0.gpu0", "m1.gpu0") == 50e9


def test_a_link_of_the_users_own_gets_cautious_shares() -> None:
    own = wire(CATALOGUE, "Groq chip-to-chip")
    assert not own.checked
    assert 0 < own.collective <= 1


@pytest.mark.parametrize(
    ("device", "pair", "all_peers"),
    [("Gaudi3", 75e9, 525e9), ("Gaudi2", 37.5e9, 262.5e9), ("MI300X", 64e9, 448e9)],
)
def test_pairs_of_a_mesh_share_what_a_device_has_to_all(
    device: str, pair: float, all_peers: float
) -> None:
    topology = for_device(CATALOGUE, CATALOGUE.device(device), 8)
    first, second = topology.devices[:2]
    assert topology.pair_bytes_per_s(first, second) == pytest.approx(pair)
    assert topology.aggregate_bytes_per_s(first) == pytest.approx(all_peers)


def test_a_mesh_of_which_no_pair_is_known_does_not_multiply_its_links() -> None:
    topology = for_device(CATALOGUE, CATALOGUE.device("Groq-LPU"), 4)
    assert topology.aggregate_bytes_per_s(topology.devices[0]) == pytest.approx(165e9)


@pytest.mark.parametrize(
    ("link", "assumed"),
    [
        ("NVLink 4", ()),
        ("NVLink 5", ("send",)),
        ("RoCE 400G", ("collective",)),
        ("xGMI MI300X", ("collective", "send")),
        ("Gaudi3 RoCE", ("collective", "send")),
        ("TPU v6e ICI", ("collective", "send")),
        ("EFA p5", ("collective", "send")),
        ("InfiniBand HDR", ("collective", "send")),
    ],
)
def test_shares_that_nobody_measured_are_marked(link: str, assumed: tuple[str, ...]) -> None:
    assert wire(CATALOGUE, link).assumed == assumed


def test_a_share_that_is_taken_from_another_link_is_marked() -> None:
    for link in CATALOGUE.links:
        found = wire(CATALOGUE, link.name)
        if found.source.startswith(("as ", "assumed")):
            assert found.assumed, link.name


@pytest.mark.parametrize("name", [name for name, _ in topology_names()])
def test_loads_of_all_are_those_of_every_pair_s_path(name: str) -> None:
    topology = preset(CATALOGUE, name)
    pairs = [(a, b) for a in topology.devices for b in topology.devices if a != b]
    loads, longest_s = topology.loads_of_all(topology.devices, topology.devices)
    assert loads == topology.loads(Flow(a, b, 1.0) for a, b in pairs)
    assert longest_s == pytest.approx(max(topology.path(a, b).latency_s for a, b in pairs))
    assert all(topology.pair_bytes_per_s(*p) == topology.path(*p).bytes_per_s for p in pairs)


def test_loads_of_two_halves_cross_machines_over_their_adapters() -> None:
    topology = preset(CATALOGUE, "nvswitch-h100", 16)
    first, second = topology.devices[:8], topology.devices[8:]
    loads, _ = topology.loads_of_all(first, second)
    assert loads == topology.loads(Flow(a, b, 1.0) for a in first for b in second)


def test_loads_of_a_pair_that_nothing_joins_are_refused() -> None:
    nodes = [Node("a", NodeKind.DEVICE), Node("b", NodeKind.DEVICE)]
    with pytest.raises(ConfigurationError, match="nothing joins a and b"):
        Topology("two", nodes, []).loads_of_all(["a"], ["b"])
