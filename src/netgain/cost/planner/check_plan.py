"""Can a claim be true, as a report."""

from netgain.cost.claim import Claim, Verdict, check_claim, described
from netgain.report.document import Basis, Column, Figure, Report, Section, Table


def plan_check(claim: Claim) -> tuple[Report, Verdict]:
    """The judgement and its arithmetic.

    Raises `ConfigurationError` for a claim that says too little to be checked.
    """
    judgement = check_claim(claim)
    rows = tuple(
        {
            "check": finding.name,
            "verdict": finding.verdict.word,
            "statement": finding.statement,
            "arithmetic": finding.arithmetic,
        }
        for finding in judgement.findings
    )
    columns = (
        Column("check", "Check"),
        Column("verdict", "Verdict"),
        Column("statement", "Because"),
        Column("arithmetic", "Arithmetic", "", Basis.ASSUMED),
    )
    worst = judgement.verdict
    decisive = [f for f in judgement.findings if f.verdict is worst]
    # What fits is worth saying first only where nothing faster was claimed.
    reason = decisive[-1] if worst is Verdict.POSSIBLE else decisive[0]
    doubts = list(claim.shape.notes if claim.shape else ())
    if [finding.name for finding in judgement.findings] == ["memory"]:
        doubts.append(
            "No speed was read from the claim: only whether it fits was checked. Give --tok-s, "
            "--tok-s-each, --tpot-ms or --prefill-tok-s"
        )
    figure = Figure(
        "verdict", "Verdict", worst.word, "", Basis.ASSUMED,
        "; ".join(finding.arithmetic for finding in decisive),
        "floors: every weight read once at full bandwidth, every product at the dense peak",
    )  # fmt: skip
    report = Report(
        "Can it be true?",
        (
            Section(
                "What was checked",
                figures=(figure,),
                tables=(Table("findings", "Checks", columns, rows),),
            ),
        ),
        (f"{worst.word.capitalize()}: {reason.statement}.",),
        tuple(doubts),
        dict(described(claim)),
    )
    return report, worst
