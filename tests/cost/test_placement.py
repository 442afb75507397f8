"""Which rank goes where: SPEC 9's choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.cost.layout import Layout
from netgain.cost.placement import described, place, propose
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import preset
from netgain.hardware.topology import Topology


def of(name: str, devices: int | None = None) -> Topology:
    return preset(shipped_catalogue(), name, devices)


@pytest.mark.parametrize(
    ("topology", "needed", "layout"),
    [
        ("pcie4", 1, Layout(dp=4)),
        ("bridge-a100", 1, Layout(dp=4)),
        ("bridge-a100", 2, Layout(dp=2, tp=2)),
        ("bridge-a100", 4, Layout(pp=2, tp=2)),
    ],
)
def test_the_same_four_gpus_are_divided_by_what_the_model_needs(
    topology: str, needed: int, layout: Layout
) -> None:
    assert propose(of(topology), needed).layout == layout


def test_pairs_with_bridges_get_tp_inside_and_pp_between() -> None:
    proposal = propose(of("bridge-a100"), 4)
    assert proposal.placement.tensor_groups() == (("m0.gpu0", "m0.gpu1"), ("m0.gpu2", "m0.gpu3"))
    assert proposal.placement.boundaries() == (("m0.gpu0", "m0.gpu2"), ("m0.gpu1", "m0.gpu3"))
    assert proposal.placement.tensor_bytes_per_s == 300e9
    assert proposal.placement.tensor_in_fast_domain
    assert "TP 2 inside each fast domain of 2" in proposal.reason
    assert "PP 2 between them" in proposal.reason


def test_a_switch_takes_tp_over_all_of_them() -> None:
    assert propose(of("nvswitch-h100", 4), 4).layout == Layout(tp=4)
    assert propose(of("nvswitch-h100", 16), 16).layout == Layout(tp=8, pp=2)
    assert propose(of("nvl72"), 16).layout == Layout(dp=4, tp=16)


def test_two_replicas_of_two_are_four_devices() -> None:
    assert Layout(dp=2, tp=2).devices == 4
    placed = place(of("bridge-a100"), Layout(dp=2, tp=2))
    assert placed.tensor_groups() == (("m0.gpu0", "m0.gpu1"), ("m0.gpu2", "m0.gpu3"))
    assert placed.boundaries() == ()


def test_tp_across_bridges_is_seen_to_leave_the_fast_domain() -> None:
    placed = place(of("bridge-a100"), Layout(tp=4))
    assert not placed.tensor_in_fast_domain
    assert placed.tensor_bytes_per_s == 31.5e9


def test_a_group_that_would_straddle_machines_leaves_devices_idle_instead() -> None:
    placed = place(of("nvswitch-h100", 16), Layout(dp=2, tp=6))
    machines = [{name.split(".")[0] for name in group} for group in placed.tensor_groups()]
    assert machines == [{"m0"}, {"m1"}]


def test_experts_share_the_ranks_of_a_stage() -> None:
    placed = place(of("nvswitch-h100", 16), Layout(dp=16, ep=16))
    assert [len(group) for group in placed.expert_groups()] == [16]
    near = place(of("nvswitch-h100", 16), Layout(dp=16, ep=8))
    machines = [{name.split(".")[0] for name in group} for group in near.expert_groups()]
    assert machines == [{"m0"}, {"m1"}]


@given(st.sampled_from([(1, 1, 8), (2, 2, 2), (1, 2, 4), (4, 1, 2), (8, 1, 1), (2, 4, 1)]))
def test_every_rank_has_a_device_of_its_own(sizes: tuple[int, int, int]) -> None:
    dp, pp, tp = sizes
    placed = place(of("nvswitch-h100"), Layout(tp=tp, pp=pp, dp=dp))
    devices = [rank.device for rank in placed.ranks]
    assert len(devices) == len(set(devices)) == 8
    assert {(r.data, r.stage, r.tensor) for r in placed.ranks} == {
        (d, p, t) for d in range(dp) for p in range(pp) for t in range(tp)
    }


def test_heads_that_do_not_divide_narrow_the_proposal() -> None:
    assert propose(of("nvswitch-h100", 16), 8, heads=12).layout == Layout(tp=6, pp=2)


def test_kv_heads_that_must_be_copied_are_mentioned() -> None:
    assert "copied 2 times" in propose(of("nvswitch-h100"), 8, heads=64, kv_heads=4).reason


def test_what_cannot_be_laid_out_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs 8 devices and bridge-a100 has 4"):
        propose(of("bridge-a100"), 8)
    with pytest.raises(ConfigurationError, match="takes 8 devices and bridge-a100 has 4"):
        place(of("bridge-a100"), Layout(tp=8))
    with pytest.raises(ConfigurationError, match="expert parallel 4 does not divide the 6"):
        place(of("nvswitch-h100"), Layout(tp=2, dp=3, ep=4))
    with pytest.raises(ConfigurationError, match="2 pipeline stages for 1 layers"):
        propose(of("bridge-a100"), 4, layers=1)


def test_a_layout_is_told_by_its_factors() -> None:
    assert described(Layout(tp=2, pp=2)) == "TP 2 x PP 2"
    assert described(Layout()) == "one device"
