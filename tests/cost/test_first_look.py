"""Where to look first."""

import pytest

from netgain.cost.first_look import Deployment, Trouble, deployment_of, first_axis, first_link


@pytest.mark.parametrize(
    ("deployment", "link"),
    [
        (Deployment.INDEPENDENT, "PCIe"),
        (Deployment.TENSOR_PARALLEL, "NVLink/NVSwitch"),
        (Deployment.OVER_SERVERS, "InfiniBand/RoCE"),
    ],
)
def test_the_first_link_to_examine(deployment: Deployment, link: str) -> None:
    assert first_link(deployment).first == link


@pytest.mark.parametrize(
    ("devices", "machines", "deployment"),
    [
        (1, 1, Deployment.INDEPENDENT),
        (4, 1, Deployment.TENSOR_PARALLEL),
        (16, 2, Deployment.OVER_SERVERS),
    ],
)
def test_devices_and_machines_say_how_a_model_is_deployed(
    devices: int, machines: int, deployment: Deployment
) -> None:
    assert deployment_of(devices, machines) is deployment


@pytest.mark.parametrize(
    ("trouble", "axis", "also"),
    [
        (Trouble.DOES_NOT_FIT, "memory capacity", "sharding"),
        (Trouble.SLOW_DECODE, "memory bandwidth", "on-chip memory"),
        (Trouble.COMMUNICATION, "interconnect", "topology"),
        (Trouble.RACK_LIMIT, "power", "performance per watt"),
        (Trouble.MIGRATION, "software ecosystem", "skills"),
        (Trouble.LOWEST_LATENCY, "SRAM machines", "static execution"),
    ],
)
def test_the_first_axis_to_examine(trouble: Trouble, axis: str, also: str) -> None:
    look = first_axis(trouble)
    assert look.first == axis
    assert also in look.also
