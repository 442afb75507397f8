"""From a backend's arrays of scores to the log-probabilities of a step's tokens.

Dimensions: S scored rows, K most alternatives.
"""

from collections.abc import Sequence
from dataclasses import replace

from netgain.engine.device_state import StepArrays
from netgain.engine.messages import TokenLogprob
from netgain.engine.step import PromptLogprobs, StepResult
from netgain.ops.scores import Scores, Wanted


def with_logprobs(result: StepResult, arrays: StepArrays, scores: Scores) -> StepResult:
    """The result with what was wanted of its rows."""
    wanted = arrays.wanted
    assert wanted is not None
    entries = _entries(result.tokens, wanted, scores)
    prompts: list[PromptLogprobs] = []
    row = drawn = len(result.tokens)
    for prompt in arrays.scored:
        made = tuple(entry for entry in entries[row : row + prompt.count] if entry is not None)
        prompts.append(PromptLogprobs(prompt.request_id, prompt.first, made))
        row += prompt.count
    return replace(result, logprobs=tuple(entries[:drawn]), prompt_logprobs=tuple(prompts))


def _entries(drawn: Sequence[int], wanted: Wanted, scores: Scores) -> list[TokenLogprob | None]:
    """One per row; None where the row was not to be scored."""
    tokens = [*drawn, *wanted.targets_P.tolist()]
    logprobs, ranks = scores.logprobs_S.tolist(), scores.ranks_S.tolist()
    top_ids, top_logprobs = scores.top_ids_SK.tolist(), scores.top_logprobs_SK.tolist()
    entries: list[TokenLogprob | None] = []
    for row, tops in enumerate(wanted.tops_S.tolist()):
        if tops < 0:
            entries.append(None)
            continue
        pairs = zip(top_ids[row][:tops], top_logprobs[row], strict=False)
        # A small vocabulary has fewer tokens than were asked for.
        top = tuple(pair for pair in pairs if pair[0] >= 0)
        entries.append(TokenLogprob(tokens[row], logprobs[row], ranks[row], top))
    return entries
