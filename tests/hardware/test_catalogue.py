"""The catalogue of devices and links, and entries of a user's own."""

from pathlib import Path

import pytest

from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import Catalogue, load_catalogue, shipped_catalogue
from netgain.hardware.device import Family, Precision
from netgain.hardware.fact import Confidence
from netgain.report.document import Basis

KNOWN = shipped_catalogue()


def test_every_family_has_a_device() -> None:
    assert {device.family for device in KNOWN.devices} == set(Family)


@pytest.mark.parametrize(
    ("device", "precision", "dense", "quoted"),
    [
        ("H100-SXM", Precision.BF16, 989e12, 1979e12),
        ("H100-SXM", Precision.FP8, 1979e12, 3958e12),
        ("H100-NVL", Precision.BF16, 835e12, 1671e12),
        ("L4", Precision.FP8, 242e12, 485e12),
        ("B200", Precision.FP8, 4500e12, 9000e12),
    ],
)
def test_dense_and_quoted_rates_are_kept_apart(
    device: str, precision: Precision, dense: float, quoted: float
) -> None:
    rate = KNOWN.device(device).rates[precision]
    assert rate.dense.value == dense
    assert rate.quoted is not None
    assert rate.quoted.value == quoted


def test_an_aggregate_to_all_peers_is_not_a_pair_s_bandwidth() -> None:
    scale_up = KNOWN.device("MI300X").scale_up
    assert scale_up is not None
    assert scale_up.per_direction_bytes_s.value == 448e9
    assert scale_up.pair_bytes_s.value == 64e9


def test_nvlink_4_is_450_each_way_and_900_in_total() -> None:
    link = KNOWN.link("NVLink 4")
    assert (link.per_direction_bytes_s.value, link.total_bytes_s) == (450e9, 900e9)


@pytest.mark.parametrize(
    ("device", "mib"),
    [("H100-SXM", 81_559), ("GB200", 189_471), ("RTX-4090", 24_564), ("L40S", 46_068),
     ("B300", 275_040), ("GB300", 284_208)],
)  # fmt: skip
def test_memory_is_what_the_driver_reports(device: str, mib: int) -> None:
    assert KNOWN.device(device).memory_bytes.value == mib << 20


def test_the_a100_has_no_fp8_and_computes_it_in_bf16() -> None:
    device = KNOWN.device("A100")
    assert Precision.FP8 not in device.rates
    assert device.rate(Precision.FP8)[0] is Precision.BF16


def test_achieved_fractions_are_those_that_were_measured() -> None:
    fraction = KNOWN.device("H100-SXM").rates[Precision.BF16].achieved_fraction
    assert fraction == pytest.approx(0.803, abs=0.001)


@pytest.mark.parametrize("name", ["h100_sxm", "H100 SXM", "H100-SXM5", "h100"])
def test_names_are_forgiving(name: str) -> None:
    assert KNOWN.device(name).name == "H100-SXM"


def test_an_unknown_name_brings_the_nearest_ones() -> None:
    with pytest.raises(ConfigurationError, match="did you mean MI300X"):
        KNOWN.device("MI300")
    with pytest.raises(ConfigurationError, match="did you mean NVLink"):
        KNOWN.link("NVLink 44")


def test_every_link_a_device_has_is_in_the_catalogue() -> None:
    for device in KNOWN.devices:
        for joined in (device.scale_up, device.host):
            if joined is not None:
                KNOWN.link(joined.link)


def test_no_two_devices_answer_to_one_name() -> None:
    names = [name for d in KNOWN.devices for name in (d.name, *d.aliases)]
    for device in KNOWN.devices:
        for name in (device.name, *device.aliases):
            assert KNOWN.device(name) is device, names


def test_every_value_has_a_source_and_memory_ones_are_marked() -> None:
    for device in KNOWN.devices:
        assert device.memory_bytes.source
        assert device.bandwidth_bytes_s.basis is Basis.ASSUMED
    assert KNOWN.device("H100-NVL").low_confidence
    assert not KNOWN.device("H100-SXM").low_confidence


def test_a_user_s_file_changes_only_what_it_says(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[[device]]\nname = "h100-sxm"\nprice_per_hour = 2.5\n'
        'bandwidth_gb_s = { value = 2900, confidence = "measured" }\n'
    )
    device = load_catalogue([mine]).device("H100-SXM")
    assert device.price_per_hour is not None
    assert (device.price_per_hour.value, device.price_per_hour.source) == (2.5, "mine.toml")
    assert device.bandwidth_bytes_s.value == 2900e9
    assert device.bandwidth_bytes_s.confidence is Confidence.MEASURED
    assert device.bandwidth_bytes_s.basis is Basis.MEASURED
    assert device.rates == KNOWN.device("H100-SXM").rates


def test_a_user_s_file_adds_devices_and_links(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[[device]]\nname = "Toy"\nlabel = "A toy"\nvendor = "me"\nfamily = "gpu"\n'
        'software = "CUDA"\nsource = "the box"\nmemory = { sheet = "1 GB", gb = 1 }\n'
        "bandwidth_gb_s = 10\ntflops.bf16 = { dense = 1 }\n"
        '[[link]]\nname = "String"\nscope = "inter-node"\nsource = "tied"\n'
        "per_direction_gb_s = 0.1\n"
    )
    known = load_catalogue([mine])
    assert known.device("toy").crossover_flop_per_byte == 100
    assert known.link("string").per_direction_bytes_s.value == 0.1e9


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[device]]\nname = "H100-SXM"\nbandwith_gb_s = 1\n', "bandwith_gb_s"),
        ('[[device]]\nname = "H100-SXM"\nbandwidth_gb_s = -1\n', "above zero"),
        ('[[device]]\nname = "H100-SXM"\nbandwidth_gb_s = "fast"\n', "bandwidth_gb_s"),
        ('[[device]]\nlabel = "no name"\n', "needs a name"),
        ("[[gadget]]\n", "unknown table"),
        ("not toml", "not a TOML file"),
        ('[[device]]\nname = "New"\n', "missing required field"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        load_catalogue([wrong])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_catalogue([tmp_path / "none.toml"])


def test_an_h800_is_as_sure_as_its_one_source_says() -> None:
    h800 = KNOWN.device("H800")
    assert h800.scale_up is not None
    assert h800.scale_up.per_direction_bytes_s.confidence is Confidence.READ
    assert h800.power_w is not None
    facts = [h800.memory_bytes, h800.bandwidth_bytes_s, h800.power_w]
    for rate in h800.rates.values():
        facts += [fact for fact in (rate.dense, rate.quoted, rate.achieved) if fact is not None]
    assert {fact.confidence for fact in facts} == {Confidence.DERIVED}


def test_what_is_twice_the_dense_rate_is_twice_it_and_says_derived() -> None:
    for device in KNOWN.devices:
        for rate in device.rates.values():
            if rate.quoted is not None and rate.quoted.note.startswith("twice dense"):
                assert rate.quoted.confidence is Confidence.DERIVED
                assert rate.quoted.value == pytest.approx(2 * rate.dense.value, rel=1.1e-3)


def test_a_torus_neighbour_gets_one_link_of_several() -> None:
    for device, pair in (("TPU-v5e", 50e9), ("TPU-v6e", 100e9), ("TPU-v5p", 100e9)):
        scale_up = KNOWN.device(device).scale_up
        assert scale_up is not None
        assert scale_up.pair_bytes_s.value == pair


def _catalogue_of(tmp_path: Path, text: str) -> Catalogue:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    return load_catalogue([mine])


def test_an_entry_may_name_a_device_by_its_alias(tmp_path: Path) -> None:
    known = _catalogue_of(tmp_path, '[[device]]\nname = "H100"\nbandwidth_gb_s = 3000\n')
    assert known.device("H100-SXM").bandwidth_bytes_s.value == 3e12
    assert len(known.devices) == len(KNOWN.devices)


def test_a_scale_up_of_one_s_own_may_say_its_domain(tmp_path: Path) -> None:
    known = _catalogue_of(tmp_path, '[[device]]\nname = "H100"\nscale_up.domain = 4\n')
    scale_up = known.device("H100").scale_up
    assert scale_up is not None
    assert scale_up.domain == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 100_000, "not a TOML file"),
        ('[[device]]\nname = "H100"\nbandwidth_fraction = 7', "a share, 0 to 1"),
        (
            '[[device]]\nname = "H100"\ntflops.bf16.achieved = 5000',
            "cannot be above the dense peak",
        ),
        ('[[device]]\nname = "H100"\nscale_up.pair_gb_s = 9000', "cannot be above"),
        ('[[link]]\nname = "NVLink 4"\npair_gb_s = 9000', "cannot be above"),
        ('[[device]]\nname = "H100"\nbandwidth_gb_s = nan', "above zero and finite"),
    ],
)
def test_what_cannot_be_in_a_file_of_one_s_own_is_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        _catalogue_of(tmp_path, text)
