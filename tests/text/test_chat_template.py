"""Chat templates: the model's own words, in a sandbox."""

from pathlib import Path

import pytest

from netgain.errors import InvalidRequestError, ModelError
from netgain.models.chat_template_source import load_chat_template
from netgain.text.chat_template import ChatTemplate
from netgain.text.tokenizer import Tokenizer

USER = [{"role": "user", "content": "Hi {{ 7 * 7 }} {% raw %}"}]


def render(source: str, **names: object) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(USER, **names)  # type: ignore[arg-type]


@pytest.mark.model
def test_the_default_models_template_opens_the_assistants_turn(
    default_gguf: Path, smollm: Tokenizer
) -> None:
    template = load_chat_template(default_gguf, smollm)
    assert template is not None
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    assert template.render([{"role": "user", "content": "Hi"}]) == (
        f"<|im_start|>system\n{system}<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_message_content_is_never_compiled() -> None:
    assert render("{{ messages[0].content }}") == USER[0]["content"]


def test_the_template_sees_what_transformers_gives_it() -> None:
    assert render("{{ bos_token }}{{ eos_token }}{{ tools is none }}") == "<s></s>True"
    assert render("{{ x }}", variables={"x": 1, "bos_token": "no"}) == "1"
    assert render("{{ {'b': '<é>', 'a': 1} | tojson }}") == '{"b": "<é>", "a": 1}'
    assert render("{% for i in [1, 2] %}{{ i }}{% break %}{% endfor %}") == "1"
    assert render("{% generation %}x{% endgeneration %}") == "x"
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    assert render("  {% if true %}\nx{% endif %}\n") == "x"


def test_a_templates_own_refusal_reaches_the_client() -> None:
    with pytest.raises(InvalidRequestError, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].nothing.more }}",
        "{{ 'x' + messages }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 2 ** 100000 }}",
        "{{ range(10 ** 9) | length }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_that_fails_is_an_invalid_request(source: str) -> None:
    with pytest.raises(InvalidRequestError, match="chat template"):
        render(source)


@pytest.mark.parametrize("source", ["{% if %}", "{{ x | nofilter }}", "{% endfor %}", "{{"])
def test_a_template_that_does_not_compile_is_a_model_error(source: str) -> None:
    with pytest.raises(ModelError, match="does not compile"):
        ChatTemplate(source, None, None)
